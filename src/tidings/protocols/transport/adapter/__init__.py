"""The transport between an application and a carrier that speak the same words."""
