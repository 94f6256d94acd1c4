package wire

// controlChecks are the checks that all control messages of size bytes have in
// common.
//
// Source: [OP-27], [OP-92h], [OP-106]
func controlChecks(size int) []checkCase {
	length := func(n int) func(*Header) { return func(h *Header) { h.Length = uint32(n) } }
	return []checkCase{
		{"as it is", nil, size, fine},
		{"CONTROL is ignored", func(h *Header) { h.Flags ^= FlagControl }, size, fine},
		{"any marker", func(h *Header) { h.Marker = 0 }, size, fine},
		{"any thread", func(h *Header) { h.Tid = 7 }, size, fine},
		{"polling", func(h *Header) { h.Flags &^= FlagInterrupt }, size, ended},
		{"length too small", length(size - 1), size, ended},
		{"length too large", length(size + 1), size, ended},
		{"length 0", length(0), size, ended},
		{"cut off", nil, size - 1, ended},
		{"too long", nil, size + 1, ended},
		{"too long, with its length", length(size + 1), size + 1, ended},
		{"collapsed", func(h *Header) { h.Flags |= FlagCollapse }, size, invalid},
		{"unknown flag", func(h *Header) { h.Flags |= 0x01 }, size, invalid},
		{"unknown flags", func(h *Header) { h.Flags |= 0x1F }, size, invalid},
	}
}
