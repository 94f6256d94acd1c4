package lwiotest_test

import (
	"context"
	"fmt"
	"log"

	"lwio"
	"lwio/lwiotest"
)

func ExampleStart() {
	s, err := lwiotest.Start(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	ctx := context.Background()
	c, err := lwio.Dial(ctx, s.URL(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	f, err := c.Create(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("hello over RDMA"), 0); err != nil {
		log.Fatal(err)
	}
	p := make([]byte, 5)
	if _, err := f.ReadAt(p, 6); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q, by RDMA: %v\n", p, c.Transport().RDMA())
	// Output: "over ", by RDMA: true
}
