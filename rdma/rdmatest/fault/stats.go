package fault

import (
	"maps"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// Stats has counts since Wrap. They only grow.
type Stats struct {
	// Ops counts by kind of request.
	Ops map[rdma.Op]OpStats
	// Results counts the polled results, by status. A silent success has no result.
	Results map[rdma.Status]uint64
	// Connections counts the established connections of both sides.
	Connections uint64
	// Regions counts the registrations, RegionBytes their bytes, Exposed the
	// registrations that a peer may write or read.
	Regions, RegionBytes, Exposed uint64
	// Notifications counts the waits on completion queues that an event ended.
	Notifications uint64
}

// OpStats has the counts of one kind of request.
type OpStats struct {
	// Posted counts the requests that a queue pair took, Bytes their data bytes, Refused
	// the requests that it did not take.
	Posted, Bytes, Refused uint64
	// Completed counts the results, Failed the results without success. Received counts
	// the bytes of received messages.
	Completed, Failed, Received uint64
}

// kinds is the number of kinds of requests.
const kinds = int(rdma.OpCompareSwap) + 1

// counters has the source of Stats.
type counters struct {
	ops                           [kinds]opCounters
	connections, notifications    atomic.Uint64
	regions, regionBytes, exposed atomic.Uint64

	mu       sync.Mutex
	failures map[rdma.Status]uint64
}

type opCounters struct {
	posted, bytes, refused, completed, failed, received atomic.Uint64
}

// Stats returns the counts so far. Requests in progress may be in some of the counts and
// not in others.
func (p *Provider) Stats() Stats {
	c := &p.count
	s := Stats{
		Ops:         make(map[rdma.Op]OpStats, kinds),
		Connections: c.connections.Load(), Notifications: c.notifications.Load(),
		Regions: c.regions.Load(), RegionBytes: c.regionBytes.Load(), Exposed: c.exposed.Load(),
	}
	c.mu.Lock()
	s.Results = maps.Clone(c.failures)
	c.mu.Unlock()
	if s.Results == nil {
		s.Results = make(map[rdma.Status]uint64)
	}
	for op := range c.ops {
		o := &c.ops[op]
		st := OpStats{
			Posted: o.posted.Load(), Bytes: o.bytes.Load(), Refused: o.refused.Load(),
			Completed: o.completed.Load(), Failed: o.failed.Load(), Received: o.received.Load(),
		}
		if st == (OpStats{}) {
			continue
		}
		s.Ops[rdma.Op(op)] = st
		if ok := st.Completed - min(st.Completed, st.Failed); ok > 0 {
			s.Results[rdma.StatusSuccess] += ok
		}
	}
	return s
}

// posted counts one request that was taken or refused.
func (c *counters) posted(op rdma.Op, bytes int, err error) {
	if int(op) >= kinds {
		return
	}
	o := &c.ops[op]
	if err != nil {
		o.refused.Add(1)
		return
	}
	o.posted.Add(1)
	o.bytes.Add(uint64(bytes))
}

// completed counts one result.
func (c *counters) completed(r *rdma.Result) {
	if int(r.Op) >= kinds {
		return
	}
	o := &c.ops[r.Op]
	if r.Status != rdma.StatusSuccess {
		c.mu.Lock()
		if c.failures == nil {
			c.failures = make(map[rdma.Status]uint64)
		}
		c.failures[r.Status]++
		c.mu.Unlock()
		o.failed.Add(1)
	} else if r.Op == rdma.OpReceive {
		o.received.Add(uint64(r.Bytes))
	}
	o.completed.Add(1)
}
