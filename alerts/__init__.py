"""What somebody must look at: one open alert per cause, until its last chain has ended well."""
