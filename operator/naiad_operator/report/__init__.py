"""The command `naiad-operator report`: one archive with what a bug report needs, without secrets.

`selection` decides what is collected, `patterns` and `masking` what is masked, `summary` and `layout` how it is written down; only `collector`
reads from the API server.
"""
