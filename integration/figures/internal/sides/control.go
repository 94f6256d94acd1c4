package sides

import (
	"errors"

	"lwio/rdma"
)

// windowPairs binds and invalidates windows. One call posts Batch pairs; the last has a
// result. The passive side only keeps the connection.
func windowPairs(l *link) error {
	if !l.Active {
		return l.finish()
	}
	reqs := make([]rdma.Request, 0, 2*l.Batch)
	for range l.Batch {
		w, err := l.adapter.CreateMemoryWindow()
		if err != nil {
			return err
		}
		reqs = append(reqs,
			rdma.Request{
				Op: rdma.OpBind, Flags: rdma.FlagSilentSuccess | rdma.FlagAllowWrite,
				Window: w, Region: l.region, Offset: buffers, Length: l.Size,
			},
			rdma.Request{Op: rdma.OpInvalidate, Flags: rdma.FlagSilentSuccess, Window: w})
	}
	reqs[len(reqs)-1].Flags = 0
	err := l.phases(func(ops int) error {
		for done := 0; done < ops; done += l.Batch {
			if _, err := l.qp.Post(reqs); err != nil {
				return err
			}
			if err := l.wait(); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, l.finish())
}

// registrations registers memory of the adapter and closes the region.
func registrations(l *link) error {
	if !l.Active {
		return l.finish()
	}
	mem, err := l.adapter.Alloc(l.ctx, l.Size)
	if err != nil {
		return err
	}
	err = l.phases(func(ops int) error {
		for range ops {
			if err := l.register(mem); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, mem.Close(), l.finish())
}

// allocations is registrations with memory that each operation allocates.
func allocations(l *link) error {
	if !l.Active {
		return l.finish()
	}
	err := l.phases(func(ops int) error {
		for range ops {
			mem, err := l.adapter.Alloc(l.ctx, l.Size)
			if err != nil {
				return err
			}
			if err := errors.Join(l.register(mem), mem.Close()); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, l.finish())
}

// register registers memory for the peer to write, and closes the region.
func (l *link) register(mem rdma.Memory) error {
	m, err := l.adapter.RegisterMemory(l.ctx, mem.Bytes(), rdma.AccessRemoteWrite)
	if err != nil {
		return err
	}
	return m.Close()
}
