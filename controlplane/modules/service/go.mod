// A stand-in for a Kubernetes Service, for an API server that cannot route to Services.
module schedclass.dev/controlplane/service

go 1.26.0
