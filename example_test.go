package lwio_test

import (
	"context"
	"fmt"
	"io/fs"
	"log"

	"lwio"
	"lwio/lwiotest"
)

// dial connects to a server that runs for the example. A program has the URL that
// "lwio serve" prints.
func dial(ctx context.Context) (c *lwio.Client, stop func()) {
	s, err := lwiotest.Start(nil)
	if err != nil {
		log.Fatal(err)
	}
	c, err = lwio.Dial(ctx, s.URL(), nil)
	if err != nil {
		log.Fatal(err)
	}
	return c, func() {
		c.Close()
		s.Close()
	}
}

func Example() {
	ctx := context.Background()
	c, stop := dial(ctx)
	defer stop()

	f, err := c.Create(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("hello, world"), 0); err != nil {
		log.Fatal(err)
	}
	p := make([]byte, 5)
	if _, err := f.ReadAt(p, 7); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", p)
	// Output: world
}

// Four pages are written, and then read, all four in flight at a time.
func ExampleBatch() {
	ctx := context.Background()
	c, stop := dial(ctx)
	defer stop()

	const pages, page = 4, 4096
	f, err := c.Create(ctx, "pages")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	buf, err := c.Alloc(ctx, pages*page)
	if err != nil {
		log.Fatal(err)
	}
	defer buf.Close()
	b := c.NewBatch(pages)
	defer b.Close()

	for _, queue := range []func(f *lwio.File, p []byte, off int64, tag uint64) error{b.WriteAt, b.ReadAt} {
		for i := range pages {
			if err := queue(f, buf.Bytes()[i*page:][:page], int64(i)*page, uint64(i)); err != nil {
				log.Fatal(err)
			}
		}
		done, err := b.Wait(ctx, pages)
		if err != nil {
			log.Fatal(err)
		}
		sum := 0
		for _, d := range done {
			if d.Err != nil {
				log.Fatalf("page %d: %v", d.Tag, d.Err)
			}
			sum += d.N
		}
		fmt.Println(len(done), "operations,", sum, "bytes")
	}
	// Output:
	// 4 operations, 16384 bytes
	// 4 operations, 16384 bytes
}

// A share is a file system for every function that takes an fs.FS.
func ExampleClient_FS() {
	ctx := context.Background()
	c, stop := dial(ctx)
	defer stop()

	if err := c.Mkdir(ctx, "docs", 0); err != nil {
		log.Fatal(err)
	}
	f, err := c.Create(ctx, "docs/readme")
	if err != nil {
		log.Fatal(err)
	}
	f.Close()
	err = fs.WalkDir(c.FS(ctx), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			fmt.Println(path, d.IsDir())
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// . true
	// docs true
	// docs/readme false
}
