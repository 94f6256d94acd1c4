package lwio_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"

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

// A file appears under its name when it is complete, in place of an older one.
func ExampleClient_CreatePending() {
	ctx := context.Background()
	c, stop := dial(ctx)
	defer stop()

	p, err := c.CreatePending(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close() // deletes the file unless it was committed
	if _, err := p.WriteAt([]byte("all of it"), 0); err != nil {
		log.Fatal(err)
	}
	_, err = c.Stat(ctx, "report")
	fmt.Println("before:", errors.Is(err, fs.ErrNotExist))

	if err := p.Commit(ctx); err != nil {
		log.Fatal(err)
	}
	info, err := c.Stat(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("after:", info.Size(), "bytes")
	// Output:
	// before: true
	// after: 9 bytes
}

// Two opens of a file take turns by a lock on its first byte.
func ExampleFile_Lock() {
	ctx := context.Background()
	c, stop := dial(ctx)
	defer stop()

	first, err := c.Create(ctx, "queue")
	if err != nil {
		log.Fatal(err)
	}
	defer first.Close()
	second, err := c.OpenFile(ctx, "queue", os.O_RDWR, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer second.Close()

	turn := lwio.Range{Off: 0, Len: 1}
	if err := first.Lock(ctx, turn, lwio.LockExclusive); err != nil {
		log.Fatal(err)
	}
	err = second.TryLock(ctx, turn, lwio.LockExclusive)
	fmt.Println("locked:", errors.Is(err, lwio.ErrLocked))

	if err := first.Unlock(ctx, turn); err != nil {
		log.Fatal(err)
	}
	fmt.Println("free:", second.Lock(ctx, turn, lwio.LockExclusive))
	// Output:
	// locked: true
	// free: <nil>
}
