"""Repository agents: code that runs when a model is loaded and unloaded, and may put other files in place of the model's (rows 14.35, 14.36)."""
