"""The operator against a real kube-apiserver, etcd and controller-manager; nodes are played by `tests.apiserver.kubelet`."""
