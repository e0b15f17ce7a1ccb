"""The network under the transport (E1 to E5): what best effort and store-and-forward do, and how delays are spread."""
