package spec

// rulesOfServers are the rules that a server can break.
var rulesOfServers = []rule{
	// Discovery and NEGOTIATE.
	{"A message that is malformed, has another RevId, or whose Length is not its size breaks the pipe.",
		`fileio.TestNegotiateRefusals/garbage; fileio.TestNegotiateRefusals/cut short; fileio.TestNegotiateRefusals/nothing`},
	{"If SMB answers that the pipe does not exist, the server has no LWIO", "fileio.TestNegotiateRefusals/LWIO off"},
	{"The response lists the providers of both sides", `fileio.TestNegotiateRefusals/nothing in common;
		fileio.TestNegotiateRefusals/not offered`},
	{"| iwarp | 0, 4 or 16 bytes of IP address; 0 means the address of the SMB server | port, 2 bytes, big-endian |",
		`fileio.TestNegotiateRefusals/no address; fileio.TestNegotiateRefusals/odd address; fileio.TestNegotiateRefusals/odd port`},
	{"and uses the first that works", "fileio.TestNextInstance; fileio.TestNegotiateRefusals/no listener"},

	// AUTH.
	{"checks 30 ≤ Information − 8 ≤ 512, the key, the signatures, BaseSequence and Credits, and closes the connection if anything is wrong",
		`fileio.TestAuthRefusals/size below the fixed part; fileio.TestAuthRefusals/size 0;
		fileio.TestAuthRefusals/size above the buffer; fileio.TestAuthRefusals/huge size; fileio.TestAuthRefusals/cut short;
		fileio.TestAuthRefusals/without the plus eight; fileio.TestAuthRefusals/one byte more;
		fileio.TestAuthRefusals/key of another client; fileio.TestAuthRefusals/one bit of the options;
		fileio.TestAuthRefusals/wrong signature; fileio.TestAuthRefusals/no signature; fileio.TestAuthRefusals/wrong MAC key;
		fileio.TestAuthRefusals/MAC of another nonce; fileio.TestAuthRefusals/sequence not increased;
		fileio.TestAuthRefusals/no credits; fileio.TestAuthRefusals/more credits than asked for`},
	{"| 0x80 | 48 | Keyed: Nonce 16, MAC 32 | unless AllowMD5 | if the client did |", `fileio.TestAuthRefusals/MD5 alone;
		fileio.TestAuthWithMD5Allowed`},
	{"Its status is ACCESS_DENIED", `fileio.TestAuthRefusals/access denied;
		fileio.TestAuthRefusals/another status`},
	{"| 4 | 2 | RevId | 0x1001 | 0x1001 |", "fileio.TestAuthRefusals/another revision"},
	{"| 24 | 2 | HeaderSize | 48 | 48 |", "fileio.TestAuthRefusals/another header"},
	{"| 6 | 2 | Endian: size of a pointer; 4 or 8 | 4 or 8 | 8 |", "fileio.TestAuthRefusals/another size of pointers"},
	{"PageSize: a power of two, 512 to 32768", "fileio.TestAuthRefusals/an odd page"},
	{"| 12 | 4 | MaxRdmaWindowSize |", "fileio.TestAuthRefusals/no window"},
	{"| 20 | 4 | MaxRecvBufferSize | 16 | most bytes behind the header |", "fileio.TestAuthRefusals/no room for writes"},
	{"DataVa and DataMh name a buffer of at least 512 bytes.", "fileio.TestAuthRefusals/more than the buffer; fileio.TestAuthExposesOneBuffer"},
	{"| time from accepting to AUTH | 5 s |", "fileio.TestAuthSilence"},
	{"without the option the results are not available", "fileio.TestServerWithoutReplayCacheLeavesWritesUncertain"},
	{"A write more than 32,767 messages old cannot be replayed.", "rdmaconn.TestWritesTooManyMessagesAgoAreNotReplayed"},

	// Answers.
	{"A client ends the connection over an answer that is not 16 bytes, has a cookie that is not outstanding, reports more bytes than were asked for",
		`fileio.TestHostileAnswers/short message; fileio.TestHostileAnswers/long message; fileio.TestHostileAnswers/empty message;
		fileio.TestHostileAnswers/unknown cookie; fileio.TestHostileAnswers/cookie of an unused request;
		fileio.TestHostileAnswers/old cookie; fileio.TestHostileAnswers/answer twice;
		fileio.TestHostileAnswers/more bytes than asked for; fileio.TestHostileAnswers/a flood`},
	{"file id, 1 to 65535, on one connection; 0 is no file", "fileio.TestHostileFid"},
	{"none are END_OF_FILE", "fileio.TestSuccessWithoutBytes; fileio.TestHostileStatusBlocks/success of nothing"},
	{"the server never completes with PENDING", "fileio.TestHostileStatusBlocks/set to pending; fileio.TestHostileStatusBlocks/never set"},
	{"| none | status block by one RDMA Write of 8 bytes to IosVa |", `fileio.TestHostileStatusBlocks/more bytes than asked for;
		fileio.TestHostileStatusBlocks/all ones; fileio.TestHostileStatusBlocks/garbage; fileio.TestHostileStatusBlocks/set twice;
		fileio.TestHostileStatusBlocks/half of it; fileio.TestHostileStatusBlocks/a message instead;
		fileio.TestHostileStatusBlocks/a guessed cookie`},
	{"equal to ImmediateCookie", "fileio.TestHostileImmediateData; fileio.TestLateImmediateData; fileio.TestNoImmediateCookie"},
	{"| else | SUCCESS after the next completion, in any mode of completion |", "fileio.TestHostileWakeUp"},

	// Memory.
	{"The client exposes memory for writing only", `fileio.TestHostileAnswers/write beyond the exposed memory;
		fileio.TestHostileAnswers/write with a wrong handle; fileio.TestHostileStatusBlocks/beside it;
		fileio.TestHostileStatusBlocks/with another handle`},

	// Credits.
	{"A delta that leaves none, or Cookie 0 with another status, ends the connection.", `fileio.TestHostileAnswers/all credits taken back;
		fileio.TestHostileAnswers/delta without its status`},
	{"One is outstanding at a time", "fileio.TestHostileAnswers/two deltas; fileio.TestCreditsRightAfterAuth"},

	// Stalling and dying.
	{"a call of the library that gives up takes its memory back and stops waiting", `fileio.TestSilentServerEndsCallsThenConnection; fileio.TestCallEndsAtDeadline; fileio.TestNoCreditInTime;
		lwio.TestSilenceAtAnyByte; fileio.TestBatchOnSilentServer`},
	{"When a connection ends, the server touches no memory of the client's any more.", `fileio.TestLostConnectionGoesOnOverSMB;
		fileio.TestDeathAtEveryByte; lwio.TestDeathOfTheChannel; lwio.TestDeathOfSMB; lwio.TestCutAtEveryOperation`},
}
