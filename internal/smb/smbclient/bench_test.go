package smbclient

import "testing"

// BenchmarkReadAt measures large and small signed reads, with the server in the same process.
func BenchmarkReadAt(b *testing.B) {
	for name, n := range map[string]int{"4KiB": 4 << 10, "16MiB": 16 << 20} {
		b.Run(name, func(b *testing.B) {
			tree, _ := mount(b, nil)
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

// BenchmarkWriteAt measures large signed writes, with the server in the same process.
func BenchmarkWriteAt(b *testing.B) {
	tree, _ := mount(b, nil)
	f := open(b, tree, readWrite("f"))
	p := random(16 << 20)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.WriteAt(b.Context(), p, 0); err != nil {
			b.Fatal(err)
		}
	}
}
