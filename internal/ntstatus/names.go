package ntstatus

// The statuses this project sends, expects or explains.
//
// Source: [MS-ERREF 2.3.1]
const (
	Success                          Status = 0x00000000
	NotifyCleanup                    Status = 0x0000010B
	NotifyEnumDir                    Status = 0x0000010C
	Pending                          Status = 0x00000103
	BufferOverflow                   Status = 0x80000005
	NoMoreFiles                      Status = 0x80000006
	DeviceBusy                       Status = 0x80000011
	StoppedOnSymlink                 Status = 0x8000002D
	Unsuccessful                     Status = 0xC0000001
	NotImplemented                   Status = 0xC0000002
	InvalidInfoClass                 Status = 0xC0000003
	InfoLengthMismatch               Status = 0xC0000004
	InvalidHandle                    Status = 0xC0000008
	InvalidParameter                 Status = 0xC000000D
	NoSuchFile                       Status = 0xC000000F
	InvalidDeviceRequest             Status = 0xC0000010
	EndOfFile                        Status = 0xC0000011
	MoreProcessingRequired           Status = 0xC0000016
	NoMemory                         Status = 0xC0000017
	AccessDenied                     Status = 0xC0000022
	BufferTooSmall                   Status = 0xC0000023
	ObjectNameInvalid                Status = 0xC0000033
	ObjectNameNotFound               Status = 0xC0000034
	ObjectNameCollision              Status = 0xC0000035
	ObjectPathInvalid                Status = 0xC0000039
	ObjectPathNotFound               Status = 0xC000003A
	ObjectPathSyntaxBad              Status = 0xC000003B
	DataError                        Status = 0xC000003E
	SharingViolation                 Status = 0xC0000043
	EAsNotSupported                  Status = 0xC000004F
	FileLockConflict                 Status = 0xC0000054
	LockNotGranted                   Status = 0xC0000055
	DeletePending                    Status = 0xC0000056
	FileInvalid                      Status = 0xC0000098
	AccountLockedOut                 Status = 0xC0000234
	PrivilegeNotHeld                 Status = 0xC0000061
	WrongPassword                    Status = 0xC000006A
	LogonFailure                     Status = 0xC000006D
	TimeDifferenceAtDC               Status = 0xC0000133
	AccountRestriction               Status = 0xC000006E
	RangeNotLocked                   Status = 0xC000007E
	InvalidViewSize                  Status = 0xC000001F
	DiskFull                         Status = 0xC000007F
	InsufficientResources            Status = 0xC000009A
	MediaWriteProtected              Status = 0xC00000A2
	InvalidPipeState                 Status = 0xC00000AD
	PipeBusy                         Status = 0xC00000AE
	PipeNotAvailable                 Status = 0xC00000AC
	PipeDisconnected                 Status = 0xC00000B0
	PipeClosing                      Status = 0xC00000B1
	PipeEmpty                        Status = 0xC00000D9
	InvalidOplockProtocol            Status = 0xC00000E3
	BadImpersonationLevel            Status = 0xC00000A5
	IOTimeout                        Status = 0xC00000B5
	FileForcedClosed                 Status = 0xC00000B6
	FileIsADirectory                 Status = 0xC00000BA
	NotSupported                     Status = 0xC00000BB
	NetworkNameDeleted               Status = 0xC00000C9
	NetworkAccessDenied              Status = 0xC00000CA
	BadNetworkName                   Status = 0xC00000CC
	RequestNotAccepted               Status = 0xC00000D0
	NotSameDevice                    Status = 0xC00000D4
	InternalError                    Status = 0xC00000E5
	UnexpectedIOError                Status = 0xC00000E9
	InvalidUserBuffer                Status = 0xC00000E8
	DirectoryNotEmpty                Status = 0xC0000101
	NotADirectory                    Status = 0xC0000103
	NameTooLong                      Status = 0xC0000106
	TooManyOpenedFiles               Status = 0xC000011F
	Cancelled                        Status = 0xC0000120
	CannotDelete                     Status = 0xC0000121
	FileDeleted                      Status = 0xC0000123
	FileClosed                       Status = 0xC0000128
	InvalidLockRange                 Status = 0xC00001A1
	InvalidDeviceState               Status = 0xC0000184
	FSDriverRequired                 Status = 0xC000019C
	UserSessionDeleted               Status = 0xC0000203
	InvalidBufferSize                Status = 0xC0000206
	NotFound                         Status = 0xC0000225
	ConnectionRefused                Status = 0xC0000236
	ConnectionDisconnected           Status = 0xC000020C
	ConnectionAborted                Status = 0xC0000241
	PathNotCovered                   Status = 0xC0000257
	NetworkSessionExpired            Status = 0xC000035C
	FileTooLarge                     Status = 0xC0000904
	SMBNoPreauthIntegrityHashOverlap Status = 0xC05D0000
	RequestOutOfSequence             Status = 0xC000042A
	VolumeDismounted                 Status = 0xC000026E
	DuplicateObjectID                Status = 0xC000022A
	ServerUnavailable                Status = 0xC0000466
	FileNotAvailable                 Status = 0xC0000467
)

var names = map[Status]string{
	Success:                          "SUCCESS",
	NotifyCleanup:                    "NOTIFY_CLEANUP",
	NotifyEnumDir:                    "NOTIFY_ENUM_DIR",
	Pending:                          "PENDING",
	BufferOverflow:                   "BUFFER_OVERFLOW",
	NoMoreFiles:                      "NO_MORE_FILES",
	DeviceBusy:                       "DEVICE_BUSY",
	StoppedOnSymlink:                 "STOPPED_ON_SYMLINK",
	Unsuccessful:                     "UNSUCCESSFUL",
	NotImplemented:                   "NOT_IMPLEMENTED",
	InvalidInfoClass:                 "INVALID_INFO_CLASS",
	InfoLengthMismatch:               "INFO_LENGTH_MISMATCH",
	InvalidHandle:                    "INVALID_HANDLE",
	InvalidParameter:                 "INVALID_PARAMETER",
	NoSuchFile:                       "NO_SUCH_FILE",
	InvalidDeviceRequest:             "INVALID_DEVICE_REQUEST",
	EndOfFile:                        "END_OF_FILE",
	MoreProcessingRequired:           "MORE_PROCESSING_REQUIRED",
	NoMemory:                         "NO_MEMORY",
	AccessDenied:                     "ACCESS_DENIED",
	BufferTooSmall:                   "BUFFER_TOO_SMALL",
	ObjectNameInvalid:                "OBJECT_NAME_INVALID",
	ObjectNameNotFound:               "OBJECT_NAME_NOT_FOUND",
	ObjectNameCollision:              "OBJECT_NAME_COLLISION",
	ObjectPathInvalid:                "OBJECT_PATH_INVALID",
	ObjectPathNotFound:               "OBJECT_PATH_NOT_FOUND",
	ObjectPathSyntaxBad:              "OBJECT_PATH_SYNTAX_BAD",
	DataError:                        "DATA_ERROR",
	SharingViolation:                 "SHARING_VIOLATION",
	EAsNotSupported:                  "EAS_NOT_SUPPORTED",
	FileLockConflict:                 "FILE_LOCK_CONFLICT",
	LockNotGranted:                   "LOCK_NOT_GRANTED",
	DeletePending:                    "DELETE_PENDING",
	FileInvalid:                      "FILE_INVALID",
	AccountLockedOut:                 "ACCOUNT_LOCKED_OUT",
	PrivilegeNotHeld:                 "PRIVILEGE_NOT_HELD",
	WrongPassword:                    "WRONG_PASSWORD",
	LogonFailure:                     "LOGON_FAILURE",
	TimeDifferenceAtDC:               "TIME_DIFFERENCE_AT_DC",
	AccountRestriction:               "ACCOUNT_RESTRICTION",
	RangeNotLocked:                   "RANGE_NOT_LOCKED",
	InvalidViewSize:                  "INVALID_VIEW_SIZE",
	DiskFull:                         "DISK_FULL",
	InsufficientResources:            "INSUFFICIENT_RESOURCES",
	MediaWriteProtected:              "MEDIA_WRITE_PROTECTED",
	InvalidPipeState:                 "INVALID_PIPE_STATE",
	PipeBusy:                         "PIPE_BUSY",
	PipeNotAvailable:                 "PIPE_NOT_AVAILABLE",
	PipeDisconnected:                 "PIPE_DISCONNECTED",
	PipeClosing:                      "PIPE_CLOSING",
	PipeEmpty:                        "PIPE_EMPTY",
	InvalidOplockProtocol:            "INVALID_OPLOCK_PROTOCOL",
	BadImpersonationLevel:            "BAD_IMPERSONATION_LEVEL",
	IOTimeout:                        "IO_TIMEOUT",
	FileForcedClosed:                 "FILE_FORCED_CLOSED",
	FileIsADirectory:                 "FILE_IS_A_DIRECTORY",
	NotSupported:                     "NOT_SUPPORTED",
	NetworkNameDeleted:               "NETWORK_NAME_DELETED",
	NetworkAccessDenied:              "NETWORK_ACCESS_DENIED",
	BadNetworkName:                   "BAD_NETWORK_NAME",
	RequestNotAccepted:               "REQUEST_NOT_ACCEPTED",
	NotSameDevice:                    "NOT_SAME_DEVICE",
	InternalError:                    "INTERNAL_ERROR",
	UnexpectedIOError:                "UNEXPECTED_IO_ERROR",
	InvalidUserBuffer:                "INVALID_USER_BUFFER",
	DirectoryNotEmpty:                "DIRECTORY_NOT_EMPTY",
	NotADirectory:                    "NOT_A_DIRECTORY",
	NameTooLong:                      "NAME_TOO_LONG",
	TooManyOpenedFiles:               "TOO_MANY_OPENED_FILES",
	Cancelled:                        "CANCELLED",
	CannotDelete:                     "CANNOT_DELETE",
	FileDeleted:                      "FILE_DELETED",
	FileClosed:                       "FILE_CLOSED",
	InvalidLockRange:                 "INVALID_LOCK_RANGE",
	InvalidDeviceState:               "INVALID_DEVICE_STATE",
	FSDriverRequired:                 "FS_DRIVER_REQUIRED",
	UserSessionDeleted:               "USER_SESSION_DELETED",
	InvalidBufferSize:                "INVALID_BUFFER_SIZE",
	NotFound:                         "NOT_FOUND",
	ConnectionRefused:                "CONNECTION_REFUSED",
	ConnectionDisconnected:           "CONNECTION_DISCONNECTED",
	ConnectionAborted:                "CONNECTION_ABORTED",
	PathNotCovered:                   "PATH_NOT_COVERED",
	NetworkSessionExpired:            "NETWORK_SESSION_EXPIRED",
	FileTooLarge:                     "FILE_TOO_LARGE",
	SMBNoPreauthIntegrityHashOverlap: "SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP",
	RequestOutOfSequence:             "REQUEST_OUT_OF_SEQUENCE",
	VolumeDismounted:                 "VOLUME_DISMOUNTED",
	DuplicateObjectID:                "DUPLICATE_OBJECTID",
	FileNotAvailable:                 "FILE_NOT_AVAILABLE",
	ServerUnavailable:                "SERVER_UNAVAILABLE",
}
