package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"lwio"
	"lwio/rdma"
)

// examineTimeout bounds the trial of one provider.
const examineTimeout = 5 * time.Second

// deviceDir lists the kernel's RDMA devices.
const deviceDir = "/sys/class/infiniband"

// examineHost tries the providers of this host.
func examineHost(ctx context.Context) []finding {
	var found []finding
	for _, p := range lwio.DefaultProviders() {
		f := finding{Transport: p.Name()}
		if detail, err := tryProvider(ctx, p); err != nil {
			f.Detail, f.Next = err.Error(), advice(p.Name(), err)
		} else {
			f.Usable, f.Detail = true, detail
		}
		found = append(found, f)
	}
	return append(found, examineDevices(deviceDir))
}

// examineDevices reports the RDMA hardware.
func examineDevices(dir string) finding {
	f := finding{Transport: "verbs", Next: "nothing to do: shared memory and iWARP over TCP need no device"}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && len(entries) == 0:
		f.Detail = "this host has no RDMA device"
	case err != nil:
		f.Detail = err.Error()
	default:
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		f.Detail = "this program has no provider for the host's devices: " + strings.Join(names, " ")
	}
	return f
}

// tryProvider connects a provider to itself and sends a message.
func tryProvider(ctx context.Context, p rdma.Provider) (detail string, err error) {
	ctx, expire := context.WithTimeout(ctx, examineTimeout)
	defer expire()
	local, err := trialAddr(ctx, p)
	if err != nil {
		return "", err
	}
	a, err := p.OpenAdapter(ctx, local)
	if err != nil {
		return "", err
	}
	defer a.Close()
	at := rdma.Addr{Fabric: p.Name()}
	if local.IsValid() {
		at = rdma.Addr{AddrPort: netip.AddrPortFrom(local, 0)}
	}
	l, err := rdma.Listen(ctx, a, at, 1)
	if err != nil {
		return "", err
	}
	defer l.Close()
	if err := trial(ctx, a, l); err != nil {
		return "", err
	}
	addrs, err := p.Addrs(context.WithoutCancel(ctx))
	if err != nil || len(addrs) == 0 {
		return "within this host", nil
	}
	return "on " + joinAddrs(addrs), nil
}

// trial sends a message and receives it. The first end that fails ends the other end; trial
// returns its error.
func trial(ctx context.Context, a rdma.Adapter, l rdma.Listener) error {
	c, err := a.CreateConnector()
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	answered := make(chan error, 1)
	go func() {
		err := answerTrial(ctx, a, l, c)
		if err != nil {
			err = fmt.Errorf("the end that answers: %w", err)
			fail(err)
		}
		c.Close() // last: it makes the other end fail
		answered <- err
	}()
	err = sendTrial(ctx, a, l, fail)
	fail(nil) // ends the answering side of a failed trial
	if e := <-answered; err == nil || e != nil && errors.Is(context.Cause(ctx), e) {
		return e
	}
	return err
}

// trialAddr returns an address to try a provider on: a loopback address if there is one,
// and the zero address if the provider has no IP addresses.
func trialAddr(ctx context.Context, p rdma.Provider) (netip.Addr, error) {
	addrs, err := p.Addrs(ctx)
	if err != nil || len(addrs) == 0 {
		return netip.Addr{}, err
	}
	for _, a := range addrs {
		if a.IsLoopback() {
			return a, nil
		}
	}
	return addrs[0], nil
}

// trialEnd is one end of the connection of a trial.
type trialEnd struct {
	cq     rdma.CompletionQueue
	qp     rdma.QueuePair
	region rdma.MemoryRegion
}

// trialSize is the size of the trial's message, in bytes.
const trialSize = 64

// newTrialEnd makes an end; the adapter's Close closes it.
func newTrialEnd(ctx context.Context, a rdma.Adapter) (e trialEnd, err error) {
	if e.cq, err = a.CreateCompletionQueue(4); err != nil {
		return e, err
	}
	e.qp, err = a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: e.cq, InitiatorCQ: e.cq, ReceiveDepth: 1, InitiatorDepth: 1, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
	})
	if err != nil {
		return e, err
	}
	mem, err := a.Alloc(ctx, trialSize)
	if err != nil {
		return e, err
	}
	e.region, err = a.RegisterMemory(ctx, mem.Bytes()[:trialSize], rdma.AccessLocalWrite)
	return e, err
}

// sge is the memory of the message.
func (e *trialEnd) sge() []rdma.SGE { return []rdma.SGE{{Region: e.region, Length: trialSize}} }

// wait takes the next result, which must be a success.
func (e *trialEnd) wait(ctx context.Context) error {
	var r [1]rdma.Result
	for {
		n, err := e.cq.Poll(r[:])
		switch {
		case err != nil:
			return err
		case n == 1 && r[0].Status != rdma.StatusSuccess:
			return fmt.Errorf("%s: %w", r[0].Op, r[0].Status)
		case n == 1:
			return nil
		}
		if err := e.cq.Wait(ctx, rdma.NotifyAny); err != nil {
			return err
		}
	}
}

// answerTrial takes the connection and its message.
func answerTrial(ctx context.Context, a rdma.Adapter, l rdma.Listener, c rdma.Connector) error {
	e, err := newTrialEnd(ctx, a)
	if err != nil {
		return err
	}
	if _, err := e.qp.PostReceive([]rdma.ReceiveRequest{{SGL: e.sge()}}); err != nil {
		return err
	}
	if err := l.ConnectionRequest(ctx, c); err != nil {
		return err
	}
	if err := c.Accept(ctx, e.qp, rdma.ReadLimits{}, nil); err != nil {
		return err
	}
	return e.wait(ctx)
}

// sendTrial connects and sends. It reports a failure before it closes the connection,
// because the close makes the other end fail.
func sendTrial(ctx context.Context, a rdma.Adapter, l rdma.Listener, fail func(error)) (err error) {
	at, err := l.LocalAddr()
	if err != nil {
		return err
	}
	e, err := newTrialEnd(ctx, a)
	if err != nil {
		return err
	}
	c, err := rdma.Dial(ctx, a, e.qp, at, rdma.DialConfig{})
	if err != nil {
		return err
	}
	defer c.Close()
	defer func() { fail(err) }()
	if _, err := e.qp.Post([]rdma.Request{{Op: rdma.OpSend, SGL: e.sge()}}); err != nil {
		return err
	}
	if err := e.wait(ctx); err != nil {
		return err
	}
	select {
	case <-c.Done(): // the other end has the message, and has closed
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
