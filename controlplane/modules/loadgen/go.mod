// Creates pods at a set pace and tells how long each creation took.
module schedclass.dev/controlplane/loadgen

go 1.26.0
