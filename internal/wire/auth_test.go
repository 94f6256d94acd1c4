package wire

import "testing"

// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-26], [OP-48]
func TestAuthMatchesGoldenBytes(t *testing.T) {
	p := clientParams()
	body := p.AppendTo(nil)
	b := append(golden(t,
		row{"Length", "73000000"},
		row{"Opcode", "06"},
		row{"Flags", "80"},
		row{"Credits", "00"},
		row{"Marker", "ff"},
		row{"Fid", "0000"},
		row{"Sequence", "0000"},
		row{"Tid", "00000000"},
		row{"Offset", "0000000000000000"},
		row{"DataVa", "5857565554535251"},
		row{"DataMh", "64636261"},
		row{"ImmediateCookie", "00000000"},
		row{"Cookie", "efcdab8967452301"},
	), body...)
	if len(b) != 115 {
		t.Fatalf("%d bytes", len(b))
	}
	h := NewAuth(len(body), target)
	h.CompleteBySend(0x0123456789ABCDEF, 9)
	same(t, append(h.AppendTo(nil), body...), b)
	want(t, h.Check(len(b), depicted), fine)
}

// Source: [LWIO §Connection Authentication], [OP-27], [OP-92h], [OP-106]
func TestAuthCheckRefusesInvalidMessages(t *testing.T) {
	length := func(n uint32) func(*Header) { return func(h *Header) { h.Length = n } }
	runChecks(t, NewAuth(67, target), []checkCase{
		{"as it is", nil, 115, fine},
		{"without options", length(79), 79, fine},
		{"less than that", length(78), 78, ended},
		{"a header alone", length(HeaderSize), HeaderSize, ended},
		{"cut off", nil, 114, ended},
		{"too long", nil, 116, ended},
		{"polling", func(h *Header) { h.Flags = 0 }, 115, ended},
		{"CONTROL is ignored", func(h *Header) { h.Flags |= FlagControl }, 115, fine},
		{"unknown flag", func(h *Header) { h.Flags |= 1 }, 115, denied},
	})
}

// Source: [LWIO §Connection Authentication], [OP-47], [OP-48]
func TestAuthInformationIsTheSizePlus8(t *testing.T) {
	if got := AuthInformation(77); got != 85 {
		t.Errorf("77 bytes are %d", got)
	}
	for _, c := range []struct {
		information uint32
		n           int
		want        outcome
	}{
		{0, 0, ended}, {8, 0, ended}, {37, 0, ended}, {38, 30, fine}, {85, 77, fine},
		{520, 512, fine}, {521, 0, ended}, {0xFFFFFFFF, 0, ended},
	} {
		n, err := AuthParamsLen(c.information)
		want(t, err, c.want)
		if n != c.n {
			t.Errorf("%d are %d bytes", c.information, n)
		}
	}
}

// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-13], [OP-14], [OP-28], [OP-50b], [OP-50h]
func TestAuthCheckClient(t *testing.T) {
	for _, c := range append(bothChecks(),
		paramsCheck{"any base sequence", func(p *AuthParams) { p.BaseSequence = 9 }, fine},
		paramsCheck{"no session id", func(p *AuthParams) { p.SessionID = nil }, fine},
		paramsCheck{"no place for a status response", func(p *AuthParams) { p.MaxRecvBufferSize = 15 }, denied},
		paramsCheck{"no RDMA Writes", func(p *AuthParams) { p.MaxRdmaWindowSize = 0 }, denied},
	) {
		t.Run(c.name, func(t *testing.T) {
			p := clientParams()
			c.change(&p)
			want(t, p.CheckClient(), c.want)
		})
	}
}

// Source: [LWIO §Connection Authentication], [OP-50b], [OP-50e], [OP-50g], [OP-50i]
func TestAuthCheckServer(t *testing.T) {
	for _, c := range append(bothChecks(),
		paramsCheck{"base sequence of the client", func(p *AuthParams) { p.BaseSequence = 0 }, denied},
		paramsCheck{"no session id", func(p *AuthParams) { p.SessionID = nil }, denied},
		paramsCheck{"no credits", func(p *AuthParams) { p.Credits = 0 }, denied},
		paramsCheck{"all credits", func(p *AuthParams) { p.Credits = 32 }, fine},
		paramsCheck{"more credits than wanted", func(p *AuthParams) { p.Credits = 33 }, denied},
	) {
		t.Run(c.name, func(t *testing.T) {
			client, p := clientParams(), serverParams()
			c.change(&p)
			want(t, p.CheckServer(&client), c.want)
		})
	}
	client, p := clientParams(), serverParams()
	client.BaseSequence, p.BaseSequence = 0xFFFF, 0
	want(t, p.CheckServer(&client), fine)
}

type paramsCheck struct {
	name   string
	change func(*AuthParams)
	want   outcome
}

// bothChecks are the checks of either side's parameters.
func bothChecks() []paramsCheck {
	return []paramsCheck{
		{"as they are", func(*AuthParams) {}, fine},
		{"pointers of 4 bytes", func(p *AuthParams) { p.Endian = 4 }, fine},
		{"pointers of 2 bytes", func(p *AuthParams) { p.Endian = 2 }, denied},
		{"the other byte order", func(p *AuthParams) { p.Endian = 0x0800 }, denied},
		{"another revision", func(p *AuthParams) { p.RevID = 0x1002 }, denied},
		{"pages of 512", func(p *AuthParams) { p.PageSize = 512 }, fine},
		{"pages of 32768", func(p *AuthParams) { p.PageSize = 32768 }, fine},
		{"pages of 256", func(p *AuthParams) { p.PageSize = 256 }, denied},
		{"pages of 0", func(p *AuthParams) { p.PageSize = 0 }, denied},
		{"pages of 6144", func(p *AuthParams) { p.PageSize = 6144 }, denied},
		{"an aligned header", func(p *AuthParams) { p.HeaderSize = 56 }, denied},
		{"the control header", func(p *AuthParams) { p.HeaderSize = 12 }, denied},
		{"any read support", func(p *AuthParams) { p.RdmaReadSupported = 7 }, fine},
		{"no key", func(p *AuthParams) { p.Key = nil }, denied},
		{"no signature", func(p *AuthParams) { p.Signature = nil }, denied},
	}
}
