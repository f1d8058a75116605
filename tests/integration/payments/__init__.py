"""The payment example on its real provider, over real sockets."""
