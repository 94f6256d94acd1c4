package lwio

import (
	"context"

	"lwio/internal/wire"
	"lwio/rdma"
)

// landAlign is what the places where small reads land are aligned to, in bytes.
const landAlign = 64

// allocate gives every slot its memory: receives and messages to send, and, in memory
// of its own, the places where small reads land and status blocks. Each kind is a
// region of its own.
func (c *conn) allocate(ctx context.Context, n int) (err error) {
	sendSize, landSize := wire.HeaderSize+copyWrite, (c.cfg.smallRead+landAlign-1)/landAlign*landAlign
	recv, send, land := (n+1)*wire.StatusResponseSize, n*sendSize, n*landSize
	statusAt := (land + wire.IOStatusBlockSize - 1) / wire.IOStatusBlockSize * wire.IOStatusBlockSize
	lentSize := statusAt + n*wire.IOStatusBlockSize
	if c.mem, err = c.adapter.Alloc(ctx, recv+send); err != nil {
		return err
	}
	if c.land, err = c.adapter.Alloc(ctx, lentSize); err != nil {
		return err
	}
	own, lent := c.mem.Bytes(), c.land.Bytes()
	recvPart, sendPart := own[:recv:recv], own[recv:recv+send]
	landPart, statusPart := lent[:land:land], statusMemory(lent[statusAt:lentSize])
	for _, part := range []struct {
		mr     *rdma.MemoryRegion
		memory []byte
		access rdma.Access
	}{
		{&c.recvMR, recvPart, rdma.AccessLocalWrite}, {&c.sendMR, sendPart, 0},
		{&c.statusMR, statusPart, rdma.AccessRemoteWrite}, {&c.landMR, landPart, rdma.AccessRemoteWrite},
	} {
		if *part.mr, err = c.adapter.RegisterMemory(ctx, part.memory, part.access); err != nil {
			return err
		}
	}
	c.slots, c.polled = make([]slot, n), newSlotSet(n)
	c.queue, c.batch = make([]rdma.Request, 0, n), make([]rdma.Request, 0, n)
	c.free.init(c.slots)
	words := wordsOf(statusPart)
	for i := range c.slots {
		s := &c.slots[i]
		s.index, s.sendAt, s.landAt = i, i*sendSize, i*landSize
		s.block = &words[i]
		s.send = sendPart[s.sendAt : s.sendAt+sendSize : s.sendAt+sendSize]
		s.bounce = landPart[s.landAt : s.landAt+c.cfg.smallRead]
		s.sges = make([]rdma.SGE, min(c.info.MaxInitiatorSGE, maxGather))
		s.waiter.token = make(chan struct{}, 1)
		s.renew()
	}
	return nil
}

func (c *conn) closeRegions() {
	for _, mr := range []rdma.MemoryRegion{c.sendMR, c.landMR, c.recvMR, c.statusMR} {
		if mr != nil {
			mr.Close()
		}
	}
	for _, m := range []rdma.Memory{c.mem, c.land} {
		if m != nil {
			m.Close()
		}
	}
}
