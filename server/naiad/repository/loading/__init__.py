"""How models are loaded: the plan of each model, and the loads at the start of the server."""
