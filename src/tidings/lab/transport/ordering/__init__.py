"""Order (E6 to E8): what orderers remove and what they cost; and how losses are seen (E9)."""
