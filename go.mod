module lwio

go 1.26

require (
	github.com/google/go-cmp v0.7.0
	github.com/spf13/cobra v1.10.1
	github.com/vbauerster/mpb/v8 v8.10.2
	go.uber.org/goleak v1.3.0
	golang.org/x/crypto v0.43.0
	golang.org/x/sys v0.37.0
	golang.org/x/term v0.36.0
	pgregory.net/rapid v1.2.0
)

require (
	github.com/VividCortex/ewma v1.2.0 // indirect
	github.com/acarl005/stripansi v0.0.0-20180116102854-5a71ef0e047d // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/mattn/go-runewidth v0.0.16 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
)
