module lockwright.dev/conformance/go-zk

go 1.26.0

require (
	github.com/go-zookeeper/zk v1.0.4
	lockwright.dev/conformance/peer v0.0.0
)

require golang.org/x/sys v0.48.0 // indirect

replace lockwright.dev/conformance/peer => ../../shims/go
