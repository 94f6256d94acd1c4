package smbclient

import (
	"testing"

	"lwio/internal/smb/smbauth"
)

// protections are a signed session, and an encrypted one for each kind of cipher.
var protections = map[string]func(*Config){
	"signed":      nil,
	"AES-128-GCM": encryptedBy(smbauth.AES128GCM),
	"AES-256-GCM": encryptedBy(smbauth.AES256GCM),
	"AES-128-CCM": encryptedBy(smbauth.AES128CCM),
}

// encryptedBy returns the configuration of a session with one cipher.
func encryptedBy(c smbauth.Cipher) func(*Config) {
	return func(cfg *Config) { cfg.RequireEncryption, cfg.Ciphers = true, []smbauth.Cipher{c} }
}

// BenchmarkReadAt measures large and small reads, with the server in the same process.
func BenchmarkReadAt(b *testing.B) {
	for protection, config := range protections {
		for name, n := range map[string]int{"4KiB": 4 << 10, "16MiB": 16 << 20} {
			b.Run(protection+"/"+name, func(b *testing.B) {
				tree, _ := mount(b, config)
				f := open(b, tree, readWrite("f"))
				p := random(n)
				if _, err := f.WriteAt(b.Context(), p, 0); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := f.ReadAt(b.Context(), p, 0); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkWriteAt measures large writes, with the server in the same process.
func BenchmarkWriteAt(b *testing.B) {
	for protection, config := range protections {
		b.Run(protection, func(b *testing.B) {
			tree, _ := mount(b, config)
			f := open(b, tree, readWrite("f"))
			p := random(16 << 20)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.WriteAt(b.Context(), p, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
