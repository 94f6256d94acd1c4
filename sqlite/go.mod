module lwio/sqlite

go 1.26.0

require (
	github.com/ncruces/go-sqlite3 v0.35.6
	github.com/ncruces/go-sqlite3-wasm/v6 v6.3.35304
	lwio v0.0.0
)

require (
	github.com/ncruces/julianday v1.0.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace lwio => ../
