"""The extender: adds the class of a pod to what the stock kube-scheduler decides."""
