"""Programs that tests and the test cluster start and that no package of Debian or PyPI holds: built once from Go modules, kept outside the tree."""
