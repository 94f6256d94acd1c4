package spec

// rulesOfServers are those that a server can break.
var rulesOfServers = []rule{
	// Discovery and NEGOTIATE.
	{"A message that is malformed, has another RevId, or whose Length is not its size breaks the pipe.",
		`lwio.TestNegotiateRefusals/garbage; lwio.TestNegotiateRefusals/cut short; lwio.TestNegotiateRefusals/nothing`},
	{"if SMB answers that it does not exist, the server has no LWIO", "lwio.TestNegotiateRefusals/LWIO off"},
	{"The response lists the providers of both sides", `lwio.TestNegotiateRefusals/nothing in common;
		lwio.TestNegotiateRefusals/not offered`},
	{"| iwarp | 0, 4 or 16 bytes of IP address; 0 means the address of the SMB server | port, 2 bytes, big-endian |",
		`lwio.TestNegotiateRefusals/no address; lwio.TestNegotiateRefusals/odd address; lwio.TestNegotiateRefusals/odd port`},
	{"It connects to the first address that works", "lwio.TestNextInstance; lwio.TestNegotiateRefusals/nobody there"},

	// AUTH.
	{"checks 30 ≤ Information − 8 ≤ 512, the key, the signatures, BaseSequence and Credits, and closes the connection if anything is wrong",
		`lwio.TestAuthRefusals/size below the fixed part; lwio.TestAuthRefusals/size 0;
		lwio.TestAuthRefusals/size above the buffer; lwio.TestAuthRefusals/huge size; lwio.TestAuthRefusals/cut short;
		lwio.TestAuthRefusals/without the plus eight; lwio.TestAuthRefusals/one byte more;
		lwio.TestAuthRefusals/key of somebody else; lwio.TestAuthRefusals/one bit of the options;
		lwio.TestAuthRefusals/wrong signature; lwio.TestAuthRefusals/no signature; lwio.TestAuthRefusals/wrong MAC key;
		lwio.TestAuthRefusals/MAC of another nonce; lwio.TestAuthRefusals/sequence not increased;
		lwio.TestAuthRefusals/no credits; lwio.TestAuthRefusals/more credits than asked for`},
	{"| 0x80 | 48 | Keyed: Nonce 16, MAC 32 | unless AllowMD5 | if the client did |", `lwio.TestAuthRefusals/MD5 alone;
		lwio.TestAuthWithMD5Allowed`},
	{"Its status is ACCESS_DENIED", `lwio.TestAuthRefusals/access denied;
		lwio.TestAuthRefusals/another status`},
	{"| 4 | 2 | RevId | 0x1001 | 0x1001 |", "lwio.TestAuthRefusals/another revision"},
	{"| 24 | 2 | HeaderSize | 48 | 48 |", "lwio.TestAuthRefusals/another header"},
	{"| 6 | 2 | Endian: size of a pointer; 4 or 8 | 4 or 8 | 8 |", "lwio.TestAuthRefusals/another size of pointers"},
	{"PageSize: a power of two, 512 to 32768", "lwio.TestAuthRefusals/an odd page"},
	{"| 12 | 4 | MaxRdmaWindowSize |", "lwio.TestAuthRefusals/no window"},
	{"| 20 | 4 | MaxRecvBufferSize | 16 | most bytes behind the header |", "lwio.TestAuthRefusals/no room for writes"},
	{"DataVa and DataMh name a buffer of at least 512 bytes.", "lwio.TestAuthRefusals/more than the buffer; lwio.TestWhatAuthLends"},
	{"| time from accepting to AUTH | 5 s |", "lwio.TestAuthSilence"},
	{"without it they are not available", "lwio.TestNoOutcomes"},
	{"A write more than 32,767 messages old cannot be replayed.", "lwio.TestTooOld"},

	// Answers.
	{"A client ends the connection over an answer that is not 16 bytes, has a cookie that is not outstanding, reports more bytes than were asked for",
		`lwio.TestHostileAnswers/short message; lwio.TestHostileAnswers/long message; lwio.TestHostileAnswers/empty message;
		lwio.TestHostileAnswers/cookie of nobody; lwio.TestHostileAnswers/cookie of a slot not in use;
		lwio.TestHostileAnswers/old cookie; lwio.TestHostileAnswers/answer twice;
		lwio.TestHostileAnswers/more bytes than asked for; lwio.TestHostileAnswers/a flood`},
	{"file id, 1 to 65535, on one connection; 0 is no file", "lwio.TestHostileFid"},
	{"none are END_OF_FILE", "lwio.TestSuccessWithoutBytes; lwio.TestHostileStatusBlocks/success of nothing"},
	{"the server never completes with PENDING", "lwio.TestHostileStatusBlocks/set to pending; lwio.TestHostileStatusBlocks/never set"},
	{"| none | status block by one RDMA Write of 8 bytes to IosVa |", `lwio.TestHostileStatusBlocks/more bytes than asked for;
		lwio.TestHostileStatusBlocks/all ones; lwio.TestHostileStatusBlocks/garbage; lwio.TestHostileStatusBlocks/set twice;
		lwio.TestHostileStatusBlocks/half of it; lwio.TestHostileStatusBlocks/a message instead;
		lwio.TestHostileStatusBlocks/a guessed cookie`},
	{"equal to ImmediateCookie", "lwio.TestHostileImmediateData; lwio.TestLateImmediateData; lwio.TestNoImmediateCookie"},
	{"| else | SUCCESS after the next completion, in whatever mode that is |", "lwio.TestHostileWakeUp"},

	// Memory.
	{"The client exposes memory for writing only", `lwio.TestHostileAnswers/write beyond what was lent;
		lwio.TestHostileAnswers/write with a wrong handle; lwio.TestHostileStatusBlocks/beside it;
		lwio.TestHostileStatusBlocks/with another handle`},

	// Credits.
	{"A delta that leaves none, or Cookie 0 with another status, ends the connection.", `lwio.TestHostileAnswers/all credits taken back;
		lwio.TestHostileAnswers/delta without its status`},
	{"One is outstanding at a time", "lwio.TestHostileAnswers/two deltas; lwio.TestCreditsRightAfterAuth"},

	// Stalling and dying.
	{"a call of the library that gives up takes its memory back and stops waiting", `lwio.TestSilence; lwio.TestDeadline; lwio.TestNoCreditInTime;
		lwio.TestSilenceAtAnyByte; lwio.TestBatchOnSilentServer`},
	{"When a connection ends, the server touches no memory of the client's any more.", `lwio.TestDisconnect;
		lwio.TestDeathAtEveryByte; lwio.TestDeathOfTheChannel; lwio.TestDeathOfSMB; lwio.TestCutAtEveryOperation`},
}
