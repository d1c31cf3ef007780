"""What model files say of their tensors, read without a framework, and the rules by which configs are compared with them."""
