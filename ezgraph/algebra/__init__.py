"""What is decided, purely: who may return what, what a batch comes to, what runs next, what an outcome publishes."""
