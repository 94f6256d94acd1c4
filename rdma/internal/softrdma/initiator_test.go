package softrdma

import (
	"testing"
	"time"

	"lwio/rdma"
)

// newInitiator makes an initiator queue of depth 4 and its completion queue.
func newInitiator(t testing.TB) (*InitiatorQueue, *CompletionQueue) {
	t.Helper()
	d := newDomain(t)
	cq, err := d.CreateCompletionQueue(16)
	if err != nil {
		t.Fatal(err)
	}
	q := new(InitiatorQueue)
	q.Init(d, &rdma.QueuePairConfig{Context: 7, InitiatorDepth: 4, MaxInitiatorSGE: 2, InlineSize: 8}, cq.(*CompletionQueue))
	return q, cq.(*CompletionQueue)
}

// push queues requests with consecutive IDs, starting at first.
func (q *InitiatorQueue) push(first uint64, reqs ...rdma.Request) {
	q.Lock()
	defer q.Unlock()
	for i := range reqs {
		reqs[i].ID = first + uint64(i)
		q.PushLocked(&reqs[i], 0)
	}
}

// wantResults checks that the queue has these results and no others.
func wantResults(t testing.TB, q *CompletionQueue, want ...rdma.Result) {
	t.Helper()
	got := make([]rdma.Result, len(want)+1)
	n, err := q.Poll(got)
	if err != nil || n != len(want) {
		t.Fatalf("%d results, %v; want %d", n, err, len(want))
	}
	for i := range want {
		want[i].QueuePairContext = 7
		if got[i] != want[i] {
			t.Errorf("result %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

var (
	someSend = rdma.Request{Op: rdma.OpSend}
	someRead = rdma.Request{Op: rdma.OpRead}
	silent   = rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess}
)

// Source: [ND QueuePair §Ordering]
func TestSettleWaitsForAnswersInOrder(t *testing.T) {
	q, cq := newInitiator(t)
	q.push(1, someSend, someRead, someSend)
	q.Lock()
	q.Requests.At(1).Pending = true
	q.Unlock()
	q.Settle(3)
	wantResults(t, cq, rdma.Result{Op: rdma.OpSend, ID: 1})
	q.Lock()
	q.Requests.At(1).Pending = false
	q.Unlock()
	q.Settle(0)
	wantResults(t, cq, rdma.Result{Op: rdma.OpRead, ID: 2}, rdma.Result{Op: rdma.OpSend, ID: 3})
}

// Source: [ND Op flags SILENT_SUCCESS]
func TestSilentRequestKeepsItsSlotUntilALaterResult(t *testing.T) {
	q, cq := newInitiator(t)
	q.push(1, silent, silent)
	q.Settle(2)
	wantResults(t, cq)
	if n := q.Requests.Len(); n != 2 {
		t.Fatalf("%d slots are in use after two silent requests, want 2", n)
	}
	q.push(3, someSend)
	q.Settle(1)
	wantResults(t, cq, rdma.Result{Op: rdma.OpSend, ID: 3})
	if n := q.Requests.Len(); n != 0 {
		t.Fatalf("%d slots are in use after a result, want 0", n)
	}
}

// Source: [ND Op flags SILENT_SUCCESS]
func TestSilentRequestThatFailsHasAResult(t *testing.T) {
	q, cq := newInitiator(t)
	q.push(1, silent)
	q.Lock()
	q.Requests.At(0).Status = rdma.StatusCanceled
	q.Unlock()
	q.Settle(1)
	wantResults(t, cq, rdma.Result{Op: rdma.OpWrite, ID: 1, Status: rdma.StatusCanceled})
}

func TestEndCompletesSentAndUnsentRequests(t *testing.T) {
	q, cq := newInitiator(t)
	q.push(1, someRead, someRead, someSend, someSend)
	q.Lock()
	q.Next = 3
	q.Requests.At(0).Pending, q.Requests.At(1).Pending = true, true
	q.Unlock()
	q.End(rdma.StatusIOTimeout, func(n uint64, _ *WorkRequest) rdma.Status {
		if n < q.Next {
			return rdma.StatusSuccess
		}
		return rdma.StatusRemoteError
	})
	wantResults(t, cq,
		rdma.Result{Op: rdma.OpRead, ID: 1, Status: rdma.StatusIOTimeout},
		rdma.Result{Op: rdma.OpRead, ID: 2, Status: rdma.StatusCanceled},
		rdma.Result{Op: rdma.OpSend, ID: 3},
		rdma.Result{Op: rdma.OpSend, ID: 4, Status: rdma.StatusRemoteError})
}

// Source: [ND QueuePair.Send], [ND QueuePair.Bind]
func TestAdmitRefusesByOperationConnectionFlagsAndDepth(t *testing.T) {
	q, _ := newInitiator(t)
	q.Lock()
	defer q.Unlock()
	for what, c := range map[string]struct {
		req       rdma.Request
		connected bool
		want      rdma.Status
	}{
		"a receive":        {rdma.Request{Op: rdma.OpReceive}, true, rdma.StatusInvalidParameter},
		"no operation":     {rdma.Request{Op: 99}, true, rdma.StatusInvalidParameter},
		"not connected":    {someSend, false, rdma.StatusConnectionInvalid},
		"flags of a send":  {rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagAllowRead}, true, rdma.StatusInvalidParameterN(4)},
		"flags of a write": {rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagAllowRead}, true, rdma.StatusInvalidParameterN(6)},
		"flags of a bind":  {rdma.Request{Op: rdma.OpBind}, true, rdma.StatusInvalidParameterN(6)},
		"a send":           {someSend, true, rdma.StatusSuccess},
	} {
		if got := q.AdmitLocked(&c.req, c.connected); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
	for range 4 {
		q.PushLocked(&someSend, 0)
	}
	if got := q.AdmitLocked(&someSend, true); got != rdma.StatusNoMoreEntries {
		t.Errorf("a full queue: %v", got)
	}
}

// fakeFile represents a provider's file source.
type fakeFile struct{ rdma.FileSource }

// Source: [ND QueuePair.Write], [OP-92i]
func TestCheckDataRefusesByKindOfData(t *testing.T) {
	q, _ := newInitiator(t)
	r := q.d.register(t, 64, rdma.AccessLocalWrite)
	file := &fakeFile{}
	write := func(off int64, n int, flags rdma.Flags) rdma.Request {
		return rdma.Request{Op: rdma.OpWrite, File: file, FileOffset: off, FileLength: n, Flags: flags}
	}
	sgl := func(n int) []rdma.SGE { return []rdma.SGE{{Region: r, Length: n}} }
	for what, c := range map[string]struct {
		req      rdma.Request
		outbound int
		length   int
		want     rdma.Status
	}{
		"memory":               {rdma.Request{Op: rdma.OpSend, SGL: sgl(10)}, 0, 10, rdma.StatusSuccess},
		"too much inline data": {rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagInline, Inline: make([]byte, 9)}, 0, 0, rdma.StatusBufferOverflow},
		"inline data":          {rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagInline, Inline: make([]byte, 8)}, 0, 8, rdma.StatusSuccess},
		"a read":               {rdma.Request{Op: rdma.OpRead, SGL: sgl(10)}, 1, 10, rdma.StatusSuccess},
		"no reads":             {rdma.Request{Op: rdma.OpRead, SGL: sgl(10)}, 0, 0, rdma.StatusInvalidDeviceRequest},
		"a short atomic":       {rdma.Request{Op: rdma.OpFetchAdd, SGL: sgl(4)}, 1, 4, rdma.StatusInvalidBufferSize},
		"an atomic":            {rdma.Request{Op: rdma.OpFetchAdd, SGL: sgl(8)}, 1, 8, rdma.StatusSuccess},
		"cached, no file":      {rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagOnlyIfCached}, 0, 0, rdma.StatusInvalidParameterMix},
		"a file":               {write(5, 100, 0), 0, 100, rdma.StatusSuccess},
		"a negative offset":    {write(-1, 100, 0), 0, 100, rdma.StatusInvalidParameter},
		"a negative length":    {write(0, -1, 0), 0, -1, rdma.StatusInvalidParameter},
		"a file and inline":    {write(0, 1, rdma.FlagInline), 0, 1, rdma.StatusInvalidParameterMix},
		"an end beyond 2^63":   {write(1<<63-4, 8, 0), 0, 8, rdma.StatusBufferOverflow},
		"too long":             {write(0, MaxTransfer+1, 0), 0, MaxTransfer + 1, rdma.StatusBufferOverflow},
	} {
		if n, got := q.CheckData(&c.req, c.outbound); n != c.length || got != c.want {
			t.Errorf("%s: %d, %v, want %d, %v", what, n, got, c.length, c.want)
		}
	}
}

// Source: [ND Op flags READ_FENCE], [RFC 6581 §9.1]
func TestFencedRequestWaitsForReads(t *testing.T) {
	for what, c := range map[string]struct {
		w        WorkRequest
		reads    int
		outbound int
		want     bool
	}{
		"a send":              {WorkRequest{Op: rdma.OpSend}, 3, 1, false},
		"a fenced send":       {WorkRequest{Op: rdma.OpSend, Flags: rdma.FlagReadFence}, 1, 8, true},
		"a fence, no reads":   {WorkRequest{Op: rdma.OpSend, Flags: rdma.FlagReadFence}, 0, 8, false},
		"a read":              {WorkRequest{Op: rdma.OpRead}, 1, 2, false},
		"a read at the limit": {WorkRequest{Op: rdma.OpRead}, 2, 2, true},
		"an atomic":           {WorkRequest{Op: rdma.OpFetchAdd}, 2, 2, true},
	} {
		if got := c.w.Fenced(c.reads, c.outbound); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}

// Source: [ND QueuePair.Bind], [OP-111b]
func TestBindWithNothingBeforeItIsCarriedOutAtOnce(t *testing.T) {
	q, cq := newInitiator(t)
	r := q.d.register(t, 64, rdma.AccessRemoteWrite)
	for what, c := range map[string]struct {
		flags rdma.Flags
		slots int
	}{"silent": {rdma.FlagSilentSuccess, 0}, "with a result": {0, 1}} {
		w, err := q.d.CreateMemoryWindow()
		if err != nil {
			t.Fatal(err)
		}
		bind := rdma.Request{Op: rdma.OpBind, ID: 1, Flags: c.flags | bindAll, Window: w, Region: r, Length: 8}
		q.Lock()
		q.Windows.AdoptLocked(&bind)
		status, slots := q.PushWindowLocked(&bind, 0), q.Requests.Len()
		q.Unlock()
		at := w.RemoteAddr()
		if _, _, refused := q.Windows.Resolve(uint32(at.Token), at.Addr, 8, rdma.AccessRemoteWrite); status != rdma.StatusSuccess || slots != c.slots || refused != Granted {
			t.Errorf("%s: %v, %d slots, refusal %v", what, status, slots, refused)
		}
		q.Settle(0)
	}
	wantResults(t, cq, rdma.Result{Op: rdma.OpBind, ID: 1})
}

func TestAwaitSendingWaitsForTheSender(t *testing.T) {
	q, _ := newInitiator(t)
	q.Sending = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		q.Lock()
		defer q.Unlock()
		q.AwaitSendingLocked()
	}()
	select {
	case <-done:
		t.Fatal("returned while a goroutine sends")
	case <-time.After(10 * time.Millisecond):
	}
	q.Lock()
	q.ReleaseSendingLocked()
	q.Unlock()
	<-done
}
