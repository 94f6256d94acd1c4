package verbs

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"lwio/rdma"
)

// TestRegisterMemoryCountsReferences registers memory several times: the handle is valid on
// one socket only, and until the last deregistration, which fails while a request uses the
// memory.
//
// Source: [WSD §2.3 WSPRegisterMemory], [WSD §2.3 WSPDeregisterMemory], [WSD §6]
func TestRegisterMemoryCountsReferences(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, nil, 4096)
		buf := make([]byte, 64)
		h := a.register(buf, MemReadWrite)
		if again := a.register(buf, MemReadWrite); again != h {
			t.Error("the same memory has two handles")
		}
		if other := a.register(buf, MemRead); other == h {
			t.Error("other rights have the same handle")
		}
		if other := a.register(buf[:63], MemReadWrite); other == h {
			t.Error("a part has the same handle")
		}
		var o Overlapped
		part := []BufferEx{{Handle: h, Length: 64}}
		if err := a.Recv(&o, part, 0); err != nil {
			t.Fatal(err)
		}
		if err := a.DeregisterMemory(h); err != nil {
			t.Error("one of two:", err)
		}
		fails(t, "deregister memory in use", a.DeregisterMemory(h), EINVAL)
		var send Overlapped
		b.ok("send", &send, b.Send(&send, b.part(0, 64), 0))
		a.ok("receive", &o, nil)
		if err := a.DeregisterMemory(h); err != nil {
			t.Error("the last:", err)
		}
		fails(t, "deregister twice", a.DeregisterMemory(h), EINVAL)
		fails(t, "deregister nothing", a.DeregisterMemory(Handle{}), EINVAL)
		fails(t, "deregister another socket's", a.DeregisterMemory(b.h), EINVAL)
		fails(t, "receive into deregistered memory", a.Recv(&o, part, 0), EFAULT)
		fails(t, "receive into another socket's", a.Recv(&o, b.part(0, 8), 0), EFAULT)
		if _, err := a.RegisterMemory(t.Context(), nil, MemRead); ErrnoOf(err) != EFAULT {
			t.Error("no memory:", err)
		}
		for _, access := range []Access{0, 4, 7} {
			if _, err := a.RegisterMemory(t.Context(), buf, access); ErrnoOf(err) != EINVAL {
				t.Errorf("rights %d: %v", access, err)
			}
		}
	})
}

// TestInvalidRequestsAreRefused posts requests outside the registered memory, or with the
// wrong rights.
//
// Source: [WSD §2.3], [WSD §6]
func TestInvalidRequestsAreRefused(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, &Config{MaxRdmaSize: 1000}, 4096)
		ro, wo := a.register(make([]byte, 64), MemRead), a.register(make([]byte, 64), MemWrite)
		desc := b.expose(make([]byte, 2000), MemReadWrite)
		readable, writable := b.expose(make([]byte, 64), MemRead), b.expose(make([]byte, 64), MemWrite)
		one := func(h Handle) []BufferEx { return []BufferEx{{Handle: h, Length: 1}} }
		var o Overlapped
		for what, c := range map[string]struct {
			err  error
			want Errno
		}{
			"receive into memory to read":    {a.Recv(&o, one(ro), 0), EFAULT},
			"send from memory to write":      {a.Send(&o, one(wo), 0), EFAULT},
			"read into memory to read":       {a.RdmaRead(&o, one(ro), desc, 0, 0), EFAULT},
			"write from memory to write":     {a.RdmaWrite(&o, one(wo), desc, 0, 0), EFAULT},
			"one byte too many":              {a.Send(&o, a.part(1, 4096), 0), EFAULT},
			"before the memory":              {a.Send(&o, a.part(-1, 2), 0), EFAULT},
			"negative length":                {a.Send(&o, a.part(2, -1), 0), EFAULT},
			"offset beyond":                  {a.Send(&o, a.part(4097, 0), 0), EFAULT},
			"no handle":                      {a.Send(&o, []BufferEx{{Length: 1}}, 0), EFAULT},
			"too many buffers":               {a.Send(&o, make([]BufferEx, MaxBuffers+1), 0), EINVAL},
			"larger than an RDMA may be":     {a.RdmaWrite(&o, a.part(0, 1001), desc, 0, 0), EINVAL},
			"no descriptor":                  {a.RdmaWrite(&o, a.part(0, 1), nil, 0, 0), EINVAL},
			"half a descriptor":              {a.RdmaWrite(&o, a.part(0, 1), desc[:12], 0, 0), EINVAL},
			"write to readable memory":       {a.RdmaWrite(&o, a.part(0, 1), readable, 0, 0), EINVAL},
			"read of writable memory":        {a.RdmaRead(&o, a.part(0, 1), writable, 0, 0), EINVAL},
			"write past the end":             {a.RdmaWrite(&o, a.part(0, 2), desc, 1999, 0), EFAULT},
			"read past the end":              {a.RdmaRead(&o, a.part(0, 1000), desc, 1001, 0), EFAULT},
			"offset of 32 bits past the end": {a.RdmaRead(&o, a.part(0, 1), desc, MaxOffset, 0), EFAULT},
		} {
			fails(t, what, c.err, c.want)
		}
		// The refused requests had no effect.
		a.ok("write", &o, a.RdmaWrite(&o, a.part(0, 1000), desc, 1000, 0))
		a.ok("read", &o, a.RdmaRead(&o, a.part(0, 64), readable, 0, 0))
		if err := a.Recv(&o, a.part(0, 8), 0); err != nil {
			t.Fatal(err)
		}
		fails(t, "an Overlapped in use", a.Recv(&o, a.part(0, 8), 0), EINVAL)
	})
}

// TestFailedRegistrationKeepsSocket uses a socket after a registration failed.
//
// Source: [WSD §5.4]
func TestFailedRegistrationKeepsSocket(t *testing.T) {
	for _, f := range fabrics {
		t.Run(f.name, func(t *testing.T) {
			p := &spy{Provider: f.make()}
			a, b := pairOn(t, f, service(t, p, nil), service(t, &spy{Provider: f.make()}, nil), 4096)
			p.refuse.Store(true)
			_, err := a.RegisterMemory(t.Context(), make([]byte, 8), MemRead)
			fails(t, "register", err, ENOBUFS)
			_, err = a.RegisterRdmaMemory(t.Context(), make([]byte, 8), MemRead, make([]byte, 64))
			fails(t, "register for the peer", err, ENOBUFS)
			if !errors.Is(err, rdma.StatusInsufficientResources) {
				t.Errorf("the cause is lost: %v", err)
			}
			var send, recv Overlapped
			if err := b.Recv(&recv, b.part(0, 8), 0); err != nil {
				t.Fatal(err)
			}
			a.ok("send", &send, a.Send(&send, a.part(0, 8), 0))
			b.ok("receive", &recv, nil)
		})
	}
}

// TestRegistryMatchesModel registers and deregisters at random, and compares with a
// reference count for each piece of memory.
func TestRegistryMatchesModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &spy{Provider: fabrics[1].make()}
		v, err := StartupEx(t.Context(), p, netip.Addr{}, nil)
		if err != nil {
			rt.Fatal(err)
		}
		s, err := v.Socket(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		defer v.Cleanup()
		pieces, handles, refs := make([][]byte, 5), make([]Handle, 5), make([]int, 5)
		for i := range pieces {
			pieces[i] = make([]byte, 16)
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(pieces)-1).Draw(rt, "piece")
			switch rapid.IntRange(0, 1).Draw(rt, "operation") {
			case 0:
				h, err := s.RegisterMemory(t.Context(), pieces[i], MemReadWrite)
				if err != nil || refs[i] > 0 && h != handles[i] {
					rt.Fatalf("register %d: %v", i, err)
				}
				handles[i] = h
				refs[i]++
			case 1:
				if err := s.DeregisterMemory(handles[i]); (err == nil) != (refs[i] > 0) {
					rt.Fatalf("deregister %d, registered %d times: %v", i, refs[i], err)
				}
				refs[i] = max(refs[i]-1, 0)
			}
			used := 0
			for _, n := range refs {
				used += min(n, 1)
			}
			if open := int(p.open.Load()); open != used {
				rt.Fatalf("%d regions are open for %d that are used", open, used)
			}
		}
		if err := v.Cleanup(); err != nil || p.open.Load() != 0 {
			rt.Fatalf("cleanup leaves %d: %v", p.open.Load(), err)
		}
	})
}

// TestRegisterRdmaMemoryNeedsConnection registers memory for the peer: only a connected
// socket allows it, and the descriptor is valid until it is deregistered.
//
// Source: [WSD §2.3 WSPRegisterRdmaMemory], [WSD §2.3 WSPDeregisterRdmaMemory]
func TestRegisterRdmaMemoryNeedsConnection(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, nil, 64)
		buf, desc := make([]byte, 64), make([]byte, MaxDescriptorSize)
		alone, err := a.Service().Socket(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = alone.RegisterRdmaMemory(t.Context(), buf, MemRead, desc)
		fails(t, "not connected", err, ENOTCONN)
		_, err = a.RegisterRdmaMemory(t.Context(), buf, MemRead, desc[:DescriptorSize-1])
		var e *Error
		if !errors.As(err, &e) || e.Errno != EFAULT || e.Need != DescriptorSize {
			t.Errorf("short room: %v", err)
		}
		_, err = a.RegisterRdmaMemory(t.Context(), nil, MemRead, desc)
		fails(t, "no memory", err, EFAULT)
		_, err = a.RegisterRdmaMemory(t.Context(), buf, 0, desc)
		fails(t, "no rights", err, EINVAL)

		d := a.expose(buf, MemReadWrite)
		fails(t, "deregister the peer's", b.DeregisterRdmaMemory(d), EINVAL)
		fails(t, "deregister a part", a.DeregisterRdmaMemory(d[:8]), EINVAL)
		for i := range d {
			changed := bytes.Clone(d)
			changed[i] ^= 4
			fails(t, "deregister something else", a.DeregisterRdmaMemory(changed), EINVAL)
		}
		if err := a.DeregisterRdmaMemory(d); err != nil {
			t.Error(err)
		}
		fails(t, "deregister twice", a.DeregisterRdmaMemory(d), EINVAL)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		<-a.connector().Done()
		_, err = a.RegisterRdmaMemory(t.Context(), buf, MemRead, desc)
		fails(t, "connection that has ended", err, ENOTCONN)
	})
}
