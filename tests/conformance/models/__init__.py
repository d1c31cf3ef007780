"""Sources of python models, copied as `model.py` into the repositories that both servers load."""
