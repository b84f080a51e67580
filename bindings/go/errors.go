package kazahana

import "time"

// Status says what kind of failure an Error is. The numbers are those of kazahana.h.
type Status int

// The failures that a program may want to tell apart.
const (
	StatusAgain            Status = 1
	StatusTimeout          Status = 2
	StatusInvalid          Status = 3
	StatusUnsupported      Status = 4
	StatusClockBackward    Status = 5
	StatusBeforeEpoch      Status = 6
	StatusOverflow         Status = 7
	StatusForked           Status = 8
	StatusInUse            Status = 9
	StatusState            Status = 10
	StatusLeaseAcquisition Status = 11
	StatusNoProvider       Status = 12
	StatusUnknownKey       Status = 13
	StatusNoMemory         Status = 14
	StatusSystem           Status = 15
	StatusUnavailable      Status = 16
	StatusNoFreeNode       Status = 17
	StatusNotFound         Status = 18
	StatusForbidden        Status = 19
	StatusConflict         Status = 20
	StatusMismatch         Status = 21
	StatusStore            Status = 22
	StatusLost             Status = 23
)

// Error is what went wrong. errors.Is compares the status alone: errors.Is(err, kazahana.ErrAgain).
type Error struct {
	Status   Status
	Cause    Status        // of StatusLeaseAcquisition: why the last attempt failed
	Backward time.Duration // of StatusClockBackward: how far the clock is behind the last ID
	Limit    time.Duration // of StatusClockBackward: what would have been waited for; negative for no limit
	Retry    time.Duration // of StatusAgain: when it is worth asking again
	Message  string
}

// Error returns the message, which names the value at fault and the way out.
func (e *Error) Error() string { return e.Message }

// Is reports whether target is an Error of the same status.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Status == e.Status
}

// For errors.Is.
var (
	ErrAgain            = &Error{Status: StatusAgain, Message: "no ID without waiting"}
	ErrTimeout          = &Error{Status: StatusTimeout, Message: "no ID within the time allowed"}
	ErrClockBackward    = &Error{Status: StatusClockBackward, Message: "the clock went back"}
	ErrLeaseAcquisition = &Error{Status: StatusLeaseAcquisition, Message: "no lease, and no fallback allowed"}
	ErrInUse            = &Error{Status: StatusInUse, Message: "in use by another generator"}
	ErrUnavailable      = &Error{Status: StatusUnavailable, Message: "the source does not answer"}
	ErrUnsupported      = &Error{Status: StatusUnsupported, Message: "not supported here"}
	ErrInvalid          = &Error{Status: StatusInvalid, Message: "not a valid value"}
	ErrClosed           = &Error{Status: StatusInvalid, Message: "the generator is closed"}
)
