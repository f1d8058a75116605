"""Apps that show how job kinds are written. Nothing in the product imports them."""
