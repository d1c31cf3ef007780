"""The link between the server and a worker process, the same code on both sides: how messages travel (`link.py`), and what they contain (`codec.py`).

Limits, because it runs in workers, as in `hosts.worker`: standard library and numpy, Python 3.8; tests hold it to that.
"""
