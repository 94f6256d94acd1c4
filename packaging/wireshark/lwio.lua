-- Dissectors of LWIO for Wireshark and tshark: the messages of a client over iWARP, their status responses, and NEGOTIATE
-- on the pipe of SMB. Wireshark's own dissectors of iWARP and SMB 2 call them.
--
--   tshark -X lua_script:lwio.lua -o tcp.try_heuristic_first:TRUE -r FILE
--
-- or copy this file into the directory of Lua plugins that Help, About, Folders names. docs/protocol.md has the messages.
-- Sealed RDMA and encrypted SMB show nothing.

local lwio = Proto("lwio", "LWIO")
local negotiate = Proto("lwio_negotiate", "LWIO NEGOTIATE")

local opcodes = {
	[0x00] = "READ", [0x01] = "WRITE", [0x02] = "VEC_READ", [0x03] = "VEC_WRITE", [0x04] = "CLOSE", [0x05] = "CANCEL",
	[0x06] = "AUTH", [0x07] = "REGISTER", [0x08] = "CREDIT", [0x09] = "INTERRUPT",
	[0x80] = "LOCK", [0x81] = "UNLOCK", [0x82] = "SYNC", [0x83] = "SETSIZE", [0x84] = "STAT", [0x85] = "LOOKUP",
}
local vectored = {[0x02] = true, [0x03] = true}

local f = {
	length = ProtoField.uint32("lwio.length", "Length", base.DEC),
	opcode = ProtoField.uint8("lwio.opcode", "Opcode", base.HEX, opcodes),
	flags = ProtoField.uint8("lwio.flags", "Flags", base.HEX),
	interrupt = ProtoField.bool("lwio.flags.interrupt", "Interrupt", 8, nil, 0x80),
	control = ProtoField.bool("lwio.flags.control", "Control", 8, nil, 0x40),
	collapse = ProtoField.bool("lwio.flags.collapse", "Collapse", 8, nil, 0x20),
	shared = ProtoField.bool("lwio.flags.shared", "Shared", 8, nil, 0x10),
	credits = ProtoField.uint8("lwio.credits", "Pending requests", base.DEC),
	fid = ProtoField.uint16("lwio.fid", "File id", base.DEC),
	sequence = ProtoField.uint16("lwio.sequence", "Sequence", base.DEC),
	offset = ProtoField.uint64("lwio.offset", "Offset", base.DEC),
	data_va = ProtoField.uint64("lwio.data_va", "Address of the data", base.HEX),
	data_token = ProtoField.uint32("lwio.data_token", "Token of the data", base.HEX),
	pages = ProtoField.uint16("lwio.pages", "Regions or pages", base.DEC),
	page_size = ProtoField.uint16("lwio.page_size", "Page size", base.DEC),
	immediate = ProtoField.uint32("lwio.immediate_cookie", "Cookie of immediate data", base.HEX),
	cookie = ProtoField.uint64("lwio.cookie", "Cookie", base.HEX),
	status_token = ProtoField.uint32("lwio.status_token", "Token of the status block", base.HEX),
	status_va = ProtoField.uint64("lwio.status_va", "Address of the status block", base.HEX),
	data = ProtoField.bytes("lwio.data", "Data"),
	information = ProtoField.uint32("lwio.information", "Information", base.DEC),
	status = ProtoField.uint32("lwio.status", "Status", base.HEX),
}
lwio.fields = f

local n = {
	revision = ProtoField.uint32("lwio_negotiate.revision", "Revision", base.HEX),
	opcode = ProtoField.uint16("lwio_negotiate.opcode", "Opcode", base.HEX, {[0xFE] = "NEGOTIATE"}),
	length = ProtoField.uint16("lwio_negotiate.length", "Length", base.DEC),
	name = ProtoField.string("lwio_negotiate.name", "Name"),
	key = ProtoField.bytes("lwio_negotiate.key", "Key"),
	room = ProtoField.uint16("lwio_negotiate.response_length", "Room for the response", base.DEC),
	providers = ProtoField.uint16("lwio_negotiate.providers", "Providers", base.DEC),
	provider = ProtoField.string("lwio_negotiate.provider", "Provider"),
	instances = ProtoField.uint16("lwio_negotiate.instances", "Addresses", base.DEC),
	address = ProtoField.bytes("lwio_negotiate.address", "Address"),
	discriminator = ProtoField.bytes("lwio_negotiate.discriminator", "Discriminator"),
}
negotiate.fields = n

local malformed = ProtoExpert.new("lwio_negotiate.malformed", "The message is cut off", expert.group.MALFORMED, expert.severity.ERROR)
negotiate.experts = {malformed}

local header_size, response_size = 48, 16

-- SMB of a server that has no other address.
local tcp = DissectorTable.get("tcp.port")
tcp:add(4450, tcp:get_dissector(445))

-- header shows the 48 bytes that begin each message of a client.
local function header(buf, tree)
	local opcode, flags = buf(4, 1):uint(), buf(5, 1):uint()
	tree:add_le(f.length, buf(0, 4))
	tree:add_le(f.opcode, buf(4, 1))
	local bits = tree:add_le(f.flags, buf(5, 1))
	for _, bit in ipairs({f.interrupt, f.control, f.collapse, f.shared}) do
		bits:add(bit, buf(5, 1))
	end
	tree:add_le(f.credits, buf(6, 1))
	tree:add_le(f.fid, buf(8, 2))
	tree:add_le(f.sequence, buf(10, 2))
	tree:add_le(f.offset, buf(16, 8))
	tree:add_le(f.data_va, buf(24, 8))
	if vectored[opcode] then
		tree:add_le(f.pages, buf(32, 2))
		tree:add_le(f.page_size, buf(34, 2))
	else
		tree:add_le(f.data_token, buf(32, 4))
	end
	if flags >= 0x80 then
		tree:add_le(f.immediate, buf(36, 4))
		tree:add_le(f.cookie, buf(40, 8))
	else
		tree:add_le(f.status_token, buf(36, 4))
		tree:add_le(f.status_va, buf(40, 8))
	end
end

-- A message of a client has 0xFF at offset 7, a known opcode, and 0 at 12.
local function is_request(buf)
	return buf:len() >= header_size and buf(7, 1):uint() == 0xFF and buf(12, 4):uint() == 0 and opcodes[buf(4, 1):uint()] ~= nil
end

function lwio.dissector(buf, pinfo, root)
	pinfo.cols.protocol = "LWIO"
	local tree = root:add(lwio, buf())
	if is_request(buf) then
		header(buf, tree)
		if buf:len() > header_size then
			tree:add(f.data, buf(header_size))
		end
		local name = opcodes[buf(4, 1):uint()]
		pinfo.cols.info = string.format("%s, file %d, offset %s, length %d", name, buf(8, 2):le_uint(), tostring(buf(16, 8):le_uint64()), buf(0, 4):le_uint())
		tree:append_text(", " .. name)
		return buf:len()
	end
	tree:add_le(f.cookie, buf(0, 8))
	tree:add_le(f.information, buf(8, 4))
	tree:add_le(f.status, buf(12, 4))
	pinfo.cols.info = string.format("status 0x%08X, information %d", buf(12, 4):le_uint(), buf(8, 4):le_uint())
	return buf:len()
end

lwio:register_heuristic("iwarp_ddp_rdmap", function(buf, pinfo, root)
	if not is_request(buf) and buf:len() ~= response_size then
		return false
	end
	lwio.dissector(buf, pinfo, root)
	return true
end)

-- name is a text in UTF-16 that ends at its first NUL.
local function name(range)
	return (range:le_ustring():gsub("%z.*", ""))
end

-- providers shows the address blocks from an offset on, unless tree is nil. It returns the offset behind them, or nil if
-- the message ends before them.
local function providers(buf, tree, at, count)
	for _ = 1, count do
		if at + 130 > buf:len() then
			return nil
		end
		local instances = buf(at + 128, 2):le_uint()
		local block = tree and tree:add(n.provider, buf(at, 128), name(buf(at, 128)))
		if block then
			block:add_le(n.instances, buf(at + 128, 2))
		end
		at = at + 130
		for _ = 1, instances do
			if at + 4 > buf:len() then
				return nil
			end
			local host, rest = buf(at, 2):le_uint(), buf(at + 2, 2):le_uint()
			if at + 4 + host + rest > buf:len() then
				return nil
			end
			if block and host > 0 then
				block:add(n.address, buf(at + 4, host))
			end
			if block and rest > 0 then
				block:add(n.discriminator, buf(at + 4 + host, rest))
			end
			at = at + 4 + host + rest
		end
	end
	return at
end

function negotiate.dissector(buf, pinfo, root)
	local tree = root:add(negotiate, buf())
	pinfo.cols.protocol = "LWIO"
	pinfo.cols.info = "LWIO NEGOTIATE"
	tree:add_le(n.revision, buf(4, 4))
	tree:add_le(n.opcode, buf(8, 2))
	tree:add_le(n.length, buf(10, 2))
	if buf:len() < 544 then
		tree:add_proto_expert_info(malformed)
		return buf:len()
	end
	tree:add(n.name, buf(12, 512), name(buf(12, 512)))
	tree:add(n.key, buf(524, 16))
	-- A request has the room for the response before the number of providers; only one of both has its end at that of the
	-- message.
	local at = 540
	if providers(buf, nil, 544, buf(542, 2):le_uint()) == buf:len() then
		tree:add_le(n.room, buf(540, 2))
		at = 542
	end
	tree:add_le(n.providers, buf(at, 2))
	if providers(buf, tree, at + 2, buf(at, 2):le_uint()) ~= buf:len() then
		tree:add_proto_expert_info(malformed)
	end
	return buf:len()
end

negotiate:register_heuristic("smb2_pipe_subdissectors", function(buf, pinfo, root)
	if buf:len() < 12 or buf(0, 4):string() ~= "LWIO" or buf(8, 2):le_uint() ~= 0xFE then
		return false
	end
	negotiate.dissector(buf, pinfo, root)
	return true
end)
