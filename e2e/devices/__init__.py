"""Devices that the nodes do not have: a device plugin that advertises them to a kubelet, registered over its real socket."""
