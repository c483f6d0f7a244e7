// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// polled is the longest time between two lists while watches fail, and a little.
const polled = retryMax + time.Duration(jitter*float64(retryMax)) + time.Second

// diary is a Handler that writes down what it is told.
type diary struct {
	mu    sync.Mutex
	lines []string
	dirty bool // managedFields came along
}

func (d *diary) write(line string, objects ...*metav1.PartialObjectMetadata) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for _, object := range objects {
		names = append(names, object.Name)
		d.dirty = d.dirty || len(object.ManagedFields) > 0
	}
	slices.Sort(names)
	d.lines = append(d.lines, strings.TrimSpace(line+" "+strings.Join(names, " ")))
}

func (d *diary) Replace(objects []*metav1.PartialObjectMetadata, _ string) {
	d.write("all", objects...)
}
func (d *diary) Update(object *metav1.PartialObjectMetadata) { d.write("update", object) }
func (d *diary) Delete(object *metav1.PartialObjectMetadata) { d.write("delete", object) }
func (d *diary) Bookmark(string)                             {}
func (d *diary) Failed(error)                                { d.write("failed") }

// read returns what was written since it was read last, the same thing in a
// row once.
func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := slices.Compact(d.lines)
	d.lines = nil
	return lines
}

// peek returns what was written since it was read last.
func (d *diary) peek() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

func (d *diary) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, d.read()); diff != "" {
		t.Errorf("%s, -want +got:\n%s", when, diff)
	}
	if d.isDirty() {
		t.Error("managedFields were told")
	}
}

func (d *diary) isDirty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dirty
}

// start runs a watch in the bubble of the test, until that ends.
func start(t *testing.T, source ObjectSource[*metav1.PartialObjectMetadata]) *diary {
	d := &diary{}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { (&Watch[*metav1.PartialObjectMetadata]{Source: source, Handler: d}).RunReflector(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return d
}

// gap returns the longest time between two requests.
func gap(requests []time.Time) (longest time.Duration) {
	for i := 1; i < len(requests); i++ {
		longest = max(longest, requests[i].Sub(requests[i-1]))
	}
	return longest
}

// failureKeeper is a Handler that keeps what it is told of the first failure.
type failureKeeper struct {
	diary
	first chan error
}

func (f *failureKeeper) Failed(err error) {
	select {
	case f.first <- err:
	default:
	}
}

// TestAHandlerMayKeepWhyAServerRefuses has a server refuse with texts and causes of megabytes.
func TestAHandlerMayKeepWhyAServerRefuses(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	answers := map[string]error{"text": errors.New(long), "reason": &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReason(long)}}}
	for _, code := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		answer := apierrors.NewGenericServerResponse(code, "list", schema.GroupResource{Resource: "things"}, "", long, 0, true)
		answer.ErrStatus.Message = long
		answer.ErrStatus.Details.Causes = make([]metav1.StatusCause, 100_000)
		answers[http.StatusText(code)] = answer
		answers[http.StatusText(code)+" of something"] = fmt.Errorf("something: %w", answer)
	}
	for name, answer := range answers {
		for _, polls := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, polls=%t", name, polls), func(t *testing.T) {
				s := newServer()
				s.refuse(answer, answer, answer)
				source := s.source()
				if polls {
					source = s.single("one", "")
				}
				keeper := &failureKeeper{first: make(chan error, 1)}
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { (&Watch[*metav1.PartialObjectMetadata]{Source: source, Handler: keeper}).RunReflector(ctx) })
				err := <-keeper.first
				cancel()
				running.Wait()
				if len(err.Error()) > messageBytesMax+100 || IsRefused(err) != IsRefused(answer) || !utf8.ValidString(err.Error()) {
					t.Errorf("the handler is told an error of %d bytes: %.100s", len(err.Error()), err)
				}
				var said apierrors.APIStatus
				if errors.As(err, &said) && (said.Status().Details != nil || len(said.Status().Message) > messageBytesMax || len(said.Status().Reason) > nameBytesMax) {
					t.Errorf("it has %d bytes of a message and %d of a reason, with details: %t", len(said.Status().Message), len(said.Status().Reason), said.Status().Details != nil)
				}
			})
		}
	}
}

// TestNothingIsKeptOfCertificates has a server show certificates that are not trusted: the error has all of them, decoded.
func TestNothingIsKeptOfCertificates(t *testing.T) {
	shown := &x509.Certificate{URIs: make([]*url.URL, 100_000)}
	refusal := &url.Error{Op: "Get", URL: "https://member", Err: &tls.CertificateVerificationError{
		UnverifiedCertificates: []*x509.Certificate{shown}, Err: x509.UnknownAuthorityError{Cert: shown},
	}}
	for name, refused := range map[string]error{"alone": refusal, "among others": errors.Join(errors.New("x"), refusal)} {
		told := shortenError(refused)
		var untrusted *tls.CertificateVerificationError
		var authority x509.UnknownAuthorityError
		if !errors.As(told, &untrusted) || len(untrusted.UnverifiedCertificates) > 0 || errors.As(told, &authority) {
			t.Errorf("%s: a handler is told of %d certificates by %T", name, len(untrusted.UnverifiedCertificates), told)
		}
		if told.Error() != refused.Error() {
			t.Errorf("%s: a handler is told %q, want %q", name, told, refused)
		}
	}
	wrapped := shortenError(fmt.Errorf("x: %w", syscall.ECONNREFUSED))
	if errors.Is(wrapped, syscall.ECONNREFUSED) || wrapped.Error() != "x: connection refused" {
		t.Errorf("a handler is told %v of another error, want its text alone", wrapped)
	}
}

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no"))
}

func TestAWatchTellsWhatThereIsAndWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.write(watch.Added, "a")
		d := start(t, s.source())
		d.expect(t, "at first", "all a")
		s.write(watch.Added, "b")
		s.write(watch.Modified, "a")
		s.write(watch.Deleted, "a")
		d.expect(t, "after three changes", "update b", "update a", "delete a")
	})
}

// A watch behind something that ends idle connections misses nothing for long,
// and is no burden for the server.
func TestAWatchThatIsCut(t *testing.T) {
	broken := apierrors.NewInternalError(errors.New("stream error"))
	for reason, test := range map[string]struct {
		idle time.Duration
		cut  *apierrors.StatusError
		// late is how late a change may be told; resumed says that nothing is listed
		// again.
		late    time.Duration
		resumed bool
	}{
		"after half a minute it is resumed at once":                         {idle: 30 * time.Second, resumed: true},
		"after ten seconds it is resumed at once":                           {idle: 10 * time.Second, resumed: true},
		"after two seconds it is resumed at once":                           {idle: 2 * time.Second, resumed: true},
		"at once, time and again, the objects are listed again and again":   {idle: 50 * time.Millisecond, late: polled},
		"by an error, time and again, the objects are listed soon":          {idle: 30 * time.Second, cut: broken, late: time.Second},
		"by an error at once, the objects are listed again and again":       {idle: time.Second, cut: broken, late: polled},
		"because its version is too old, the objects are listed again soon": {idle: 20 * time.Second, cut: apierrors.NewResourceExpired("old"), late: time.Second},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.idle, s.cut = test.idle, test.cut
				s.write(watch.Added, "a")
				d := start(t, s.source())
				time.Sleep(10 * time.Minute)
				lists, watches, _ := s.requests()
				if test.resumed && (len(lists) != 1 || gap(watches) > test.idle) {
					t.Errorf("there were %d lists and up to %v between two watches, want 1 and %v", len(lists), gap(watches), test.idle)
				}
				if !test.resumed && gap(lists) > max(polled, test.idle+test.late) {
					t.Errorf("there were up to %v between two lists", gap(lists))
				}
				d.expect(t, "while nothing changes", "all a")
				s.write(watch.Deleted, "a")
				time.Sleep(test.late)
				synctest.Wait()
				if got := strings.Join(d.read(), ", "); !strings.HasPrefix(got, "delete a") && got != "all" && !strings.HasSuffix(got, ", all") {
					t.Errorf("%v after a change the owner was told %q", test.late, got)
				}
			})
		})
	}
}

func TestAWatchThatFails(t *testing.T) {
	refused := fmt.Errorf("dialing: %w", syscall.ECONNREFUSED)
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "")
	broken := apierrors.NewInternalError(errors.New("broken"))
	for reason, test := range map[string]struct {
		list, watch error
		// told is what the owner is told for ten minutes, requestsMax how many
		// requests there are.
		told        []string
		requestsMax int
		listsMax    int
	}{
		"a server that is away is asked now and then": {
			list: refused, watch: refused, told: []string{"failed"}, requestsMax: 120, listsMax: 60,
		},
		"what is not served is asked for rarely": {
			list: missing, watch: missing, told: []string{"failed"}, requestsMax: 60, listsMax: 30,
		},
		"what may not be listed is asked for rarely": {
			list: forbidden(), watch: forbidden(), told: []string{"failed"}, requestsMax: 60, listsMax: 30,
		},
		"what may be listed but not watched is not told, nor listed again": {
			watch: forbidden(), told: []string{"failed"}, requestsMax: 60, listsMax: 1,
		},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.write(watch.Added, "a")
				s.refuse(nil, test.list, test.watch)
				d := start(t, s.source())
				time.Sleep(10 * time.Minute)
				d.expect(t, "while it fails", test.told...)
				lists, watches, _ := s.requests()
				if len(lists)+len(watches) > test.requestsMax || len(lists) > test.listsMax {
					t.Errorf("there were %d lists and %d watches, want %d requests, %d of them lists", len(lists), len(watches), test.requestsMax, test.listsMax)
				}
				s.refuse(nil, nil, nil)
				time.Sleep(refusedMax + polled)
				d.expect(t, "when it does not fail any more", "all a")
				s.write(watch.Added, "b")
				d.expect(t, "after a change", "update b")
			})
		})
	}
	t.Run("after a failure everything is told anew", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.idle = 10 * time.Second
			s.write(watch.Added, "a")
			d := start(t, s.source())
			d.expect(t, "at first", "all a")
			for reason, err := range map[string]error{
				"away": refused, "busy": apierrors.NewTooManyRequestsError("later"), "broken": broken, "not willing": forbidden(),
			} {
				s.refuse(nil, err, err)
				time.Sleep(time.Minute)
				s.refuse(nil, nil, nil)
				time.Sleep(refusedMax + polled)
				d.expect(t, "after the server was "+reason, "failed", "all a")
			}
		})
	})
	t.Run("as long as watches fail, lists tell", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.refuse(nil, nil, broken)
			d := start(t, s.source())
			time.Sleep(10 * time.Minute)
			lists, _, _ := s.requests()
			if gap(lists) > polled {
				t.Errorf("there were up to %v between two lists, want %v", gap(lists), polled)
			}
			d.read()
			s.write(watch.Added, "a")
			time.Sleep(polled)
			synctest.Wait()
			if got := d.read(); !slices.Contains(got, "all a") || !slices.Contains(got, "failed") {
				t.Errorf("the owner was told %q, want what there is, and that it may not be true any more", got)
			}
		})
	})
}

func TestAWatchEndsSoon(t *testing.T) {
	for reason, fail := range map[string]error{
		"while it waits for events":       nil,
		"while the server is away":        syscall.ECONNREFUSED,
		"while the server refuses":        forbidden(),
		"while the server asks for peace": apierrors.NewTooManyRequestsError("later"),
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.refuse(fail, fail, fail)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				for _, source := range []ObjectSource[*metav1.PartialObjectMetadata]{s.source(), s.single("a", ""), s.single("a", "1")} {
					running.Go(func() { (&Watch[*metav1.PartialObjectMetadata]{Source: source, Handler: &diary{}}).RunReflector(ctx) })
				}
				time.Sleep(time.Minute)
				cancel()
				before := time.Now()
				running.Wait()
				if took := time.Since(before); took > 0 {
					t.Errorf("it took %v to end", took)
				}
			})
		})
	}
}

func TestASingleObject(t *testing.T) {
	t.Run("that may be read but not watched is read again and again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.refuse(nil, forbidden(), forbidden())
			d := start(t, s.single("a", ""))
			d.expect(t, "without an object", "all")
			s.write(watch.Added, "a")
			time.Sleep(pollMax)
			d.expect(t, "with an object", "all a")
			time.Sleep(time.Hour)
			lists, _, gets := s.requests()
			if gap(gets) > pollMax {
				t.Errorf("there were up to %v between two reads, want %v", gap(gets), pollMax)
			}
			if len(lists) == 0 || len(lists) > len(gets)/pollsPerWatch+1 {
				t.Errorf("between %d reads it was tried %d times to list and watch", len(gets), len(lists))
			}
			s.refuse(nil, nil, nil)
			time.Sleep(pollsPerWatch * pollMax)
			s.write(watch.Modified, "a")
			synctest.Wait()
			if got := d.read(); len(got) == 0 || got[len(got)-1] != "update a" {
				t.Errorf("when it may be watched, the owner is told %q", got)
			}
		})
	})
	t.Run("that may not even be read is a failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.refuse(forbidden(), forbidden(), forbidden())
			d := start(t, s.single("a", ""))
			time.Sleep(time.Hour)
			d.expect(t, "in an hour", "failed")
		})
	})
	t.Run("of a type that is not served is not an object that does not exist", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			missing := apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "")
			s.refuse(missing, missing, missing)
			d := start(t, s.single("a", ""))
			time.Sleep(time.Hour)
			d.expect(t, "in an hour", "failed")
		})
	})
	t.Run("that the owner knows already is not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.write(watch.Added, "a")
			d := start(t, s.single("a", "2"))
			d.expect(t, "at first")
			if lists, _, gets := s.requests(); len(lists)+len(gets) > 0 {
				t.Errorf("there were %d lists and %d reads", len(lists), len(gets))
			}
			s.write(watch.Modified, "a")
			d.expect(t, "after a change", "update a")
		})
	})
	t.Run("that the owner knows, but the server not any more, is listed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.write(watch.Added, "a")
			s.idle, s.cut = time.Millisecond, apierrors.NewResourceExpired("old")
			d := start(t, s.single("a", "1"))
			time.Sleep(polled)
			synctest.Wait()
			if got := d.read(); !slices.Contains(got, "all a") {
				t.Errorf("the owner is told %q", got)
			}
		})
	})
}

func TestRefused(t *testing.T) {
	for reason, test := range map[string]struct {
		err  error
		want bool
	}{
		"a server that lets nobody see is":           {forbidden(), true},
		"a server that does not serve the type is":   {apierrors.NewNotFound(schema.GroupResource{}, ""), true},
		"a server that cannot list the type is":      {apierrors.NewMethodNotSupported(schema.GroupResource{}, "list"), true},
		"a server that says so within an error is":   {fmt.Errorf("listing: %w", forbidden()), true},
		"a connection that is refused is not":        {syscall.ECONNREFUSED, false},
		"a server that is busy is not":               {apierrors.NewTooManyRequestsError("later"), false},
		"credentials that may come back are not":     {apierrors.NewUnauthorized("who"), false},
		"nothing is not":                             {nil, false},
		"a server that has a problem of its own not": {apierrors.NewInternalError(errors.New("no")), false},
	} {
		t.Run(reason, func(t *testing.T) {
			if got := IsRefused(test.err); got != test.want {
				t.Errorf("Refused is %t, want %t", got, test.want)
			}
		})
	}
}
