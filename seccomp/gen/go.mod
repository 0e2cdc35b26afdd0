module passt/seccomp/gen

go 1.26.0

require (
	github.com/seccomp/libseccomp-golang v0.11.1
	passt v0.0.0
)

require golang.org/x/sys v0.50.0 // indirect

replace passt => ../..
