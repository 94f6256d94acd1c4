module lwio/clib

go 1.26.0

require (
	golang.org/x/sys v0.37.0
	lwio v0.0.0
)

require golang.org/x/crypto v0.43.0 // indirect

replace lwio => ../
