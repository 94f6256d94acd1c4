package fault_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"strings"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/rdmatest/fault"
)

// printer prints the calls of the control path.
type printer struct{}

func (printer) Event(e fault.Event) {
	if c, ok := e.(fault.Controlled); ok {
		fmt.Println(strings.TrimSpace(c.Op + " " + c.Object))
	}
}

func Example() {
	h := fault.Wrap(iwarp.New(nil), &fault.Config{Tracer: printer{}})
	ctx := context.Background()
	adapter, err := h.OpenAdapter(ctx, netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		log.Fatal(err)
	}
	defer adapter.Close()
	region, err := adapter.RegisterMemory(ctx, make([]byte, 8192), rdma.AccessLocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	if err := region.Close(); err != nil {
		log.Fatal(err)
	}
	s := h.Stats()
	fmt.Println(s.Regions, "region of", s.RegionBytes, "bytes,", s.Exposed, "exposed")
	// Output:
	// open adapter 127.0.0.1
	// register memory 8192
	// close region
	// 1 region of 8192 bytes, 0 exposed
	// close adapter
}
