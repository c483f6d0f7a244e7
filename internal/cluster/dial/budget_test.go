// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	// collections is how many the members of these tests have, and fit how many of
	// them may be as big as a list may be.
	collections = 10
	fit         = allObjectsMax / eventsMax
)

// follower is a client of a member, at a time that the test sets.
type follower struct {
	*Transport
	t     *testing.T
	url   string
	clock *clocktesting.FakeClock
}

func followerOf(t *testing.T, handler http.HandlerFunc) *follower {
	t.Helper()
	server, ca := member(t, handler)
	f := &follower{transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal()), t, server.URL, clocktesting.NewFakeClock(time.Now())}
	f.limits.budget.clock = f.clock
	return f
}

func pathOf(collection int) string { return fmt.Sprintf("/apis/group/v1/kind%ds", collection) }

// lists lists a collection and says whether that worked; refused says why not.
func (f *follower) lists(collection int) (refused *LimitError) {
	f.t.Helper()
	_, err := take(f.t, f.Transport, f.url+pathOf(collection))
	if err != nil && !errors.As(err, &refused) {
		f.t.Fatal(err)
	}
	return refused
}

// watches watches a collection from a list on and returns why that ended.
func (f *follower) watches(collection int) error {
	f.t.Helper()
	_, err := take(f.t, f.Transport, f.url+pathOf(collection)+"?watch=true&resourceVersion=1")
	return err
}

// isSentToList reports whether a watch of the collection is answered that it has
// to be listed first.
func (f *follower) isSentToList(collection int) bool {
	f.t.Helper()
	request := httptest.NewRequestWithContext(f.t.Context(), http.MethodGet, f.url+pathOf(collection)+"?watch=true&resourceVersion=1", nil)
	response, err := f.RoundTrip(request)
	expect.NoError(f.t, err)
	defer response.Body.Close() //nolint:errcheck // nothing can be done about it
	return response.StatusCode == http.StatusGone
}

// listOf returns a list of objects of the size.
func listOf(objects int, size int64) string {
	object := fmt.Sprintf(`{"a":%q},`, strings.Repeat("x", int(size)))
	return `{"items":[` + strings.Repeat(object, objects) + `{}]}`
}

func TestManyCollectionsTogetherHaveALimit(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads gigabytes, which takes the race detector minutes: see servers in hack/packages.sh")
	}
	for name, list := range map[string]string{
		"Bytes":   listOf(7, objectBytesMax-1<<10), // 56 MiB
		"Objects": listOf(eventsMax-1, 0),
	} {
		t.Run(name, func(t *testing.T) {
			f := followerOf(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, list) })
			listed, refused := 0, (*LimitError)(nil)
			for i := range collections {
				if err := f.lists(i); err == nil {
					listed++
				} else {
					refused = err
				}
			}
			if listed != fit {
				t.Fatalf("%d collections of %d bytes each were taken from one member, want %d", listed, len(list), fit)
			}
			if !strings.Contains(refused.Limit, "in total") || f.TakeRefusal() == nil {
				t.Errorf("the condition does not say which limit was exceeded: %v", refused)
			}
			for i := range listed { // one that replaces what was there takes nothing from the others
				if err := f.lists(i); err != nil {
					t.Errorf("a collection that was taken is refused later: %v", err)
				}
			}
		})
	}
}

func TestACollectionThatNobodyFollowsCountsForAShortWhile(t *testing.T) {
	list := listOf(eventsMax-1, 0)
	streaming := make(chan struct{})
	f := followerOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			_, _ = io.WriteString(w, list)
			return
		}
		w.(http.Flusher).Flush()
		<-streaming
	})
	t.Cleanup(func() { close(streaming) })
	for i := range fit {
		if err := f.lists(i); err != nil {
			t.Fatal(err)
		}
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, f.url+pathOf(0)+"?watch=true&resourceVersion=1", nil)
	watch, err := f.RoundTrip(request)
	expect.NoError(t, err)
	f.clock.Step(followedFor - time.Second)
	f.BlockRequests(errors.New("down"))
	if _, err := f.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, f.url+pathOf(1), nil)); err == nil { //nolint:bodyclose // there is none
		t.Fatal("a request was sent though the cluster does not respond")
	}
	f.BlockRequests(nil)
	if err := f.lists(fit); err == nil {
		t.Fatal("what a client holds that is about to ask again does not count")
	}
	f.clock.Step(time.Second)
	if err := f.lists(fit); err != nil {
		t.Errorf("a collection that nobody has asked for since still counts: %v", err)
	}
	if err := f.lists(fit + 1); err == nil {
		t.Error("a collection does not count that is watched, or was asked for while the cluster did not respond")
	}
	_ = watch.Body.Close()
	f.clock.Step(followedFor)
	for i := range fit {
		if err := f.lists(collections + i); err != nil {
			t.Errorf("collections that nobody follows any more still count: %v", err)
		}
	}
	if n := len(f.limits.budget.shares); n != fit {
		t.Errorf("the shares of %d collections are remembered, want %d", n, fit)
	}
}

func TestAListThatFailsDoesNotMakeRoomForAnother(t *testing.T) {
	list := listOf(eventsMax-1, 0)
	var failing sync.Map
	f := followerOf(t, func(w http.ResponseWriter, r *http.Request) {
		if _, fails := failing.Load(r.URL.Path); fails {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, list)
	})
	listed := 0
	for i := range collections {
		if f.lists(i) == nil {
			listed++
		}
		failing.Store(pathOf(i), true)
		if err := f.lists(i); err != nil {
			t.Fatal(err)
		}
	}
	if listed != fit {
		t.Errorf("clients hold %d collections of a member that fails when it is asked again, want %d", listed, fit)
	}
}

func TestABusyMemberIsListedAgainAndGoesOn(t *testing.T) {
	const quiet = collections - 1
	var events sync.Map // by path
	f := followerOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			_, _ = io.WriteString(w, listOf(10, 0))
			return
		}
		if text, ok := events.Load(r.URL.Path); ok {
			_, _ = io.WriteString(w, text.(string))
		}
	})
	for i := range collections {
		if err := f.lists(i); err != nil {
			t.Fatal(err)
		}
		events.Store(pathOf(i), strings.Repeat("{}\n", eventsMax/3))
	}
	events.Store(pathOf(quiet), "{}\n")
	relisted := 0
	for range 3 {
		for i := range collections {
			if err := f.watches(i); err == nil && !f.isSentToList(i) {
				continue
			}
			relisted++
			if i == quiet {
				t.Error("a collection in which little happens is listed again because of the others")
			}
			if err := f.lists(i); err != nil {
				t.Fatalf("a busy collection cannot be listed: %v", err)
			}
			if f.isSentToList(i) {
				t.Fatal("a collection that was just listed has to be listed again")
			}
		}
	}
	if relisted == 0 {
		t.Error("everything that happened was taken without listing once")
	}
	if most := 2*allObjectsMax + eventsMax; f.limits.budget.held.since.objects > most {
		t.Errorf("clients may hold %d objects of events, want %d at the most", f.limits.budget.held.since.objects, most)
	}
	if refused := f.TakeRefusal(); refused != nil {
		t.Errorf("a busy cluster is told to answer too much: %v", refused)
	}
}

func TestAWatchThatBeginsWithAListMayGoOn(t *testing.T) {
	const end = `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}`
	f := followerOf(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("{}\n", eventsMax/2)+end)
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, strings.Repeat("{}\n", eventsMax*3/4))
	})
	if _, err := take(t, f.Transport, f.url+watchPath+"&sendInitialEvents=true"); err != nil {
		t.Errorf("what happened after the list counts as listed: %v", err)
	}
	since, listed := f.limits.budget.held.since.objects, f.limits.budget.held.listed.objects
	if listed < eventsMax/2 || since == 0 || listed+since != eventsMax/2+1+eventsMax*3/4 {
		t.Errorf("%d objects count as listed and %d as told since", listed, since)
	}
}

func TestAMemberCannotHaveClientsWaitForLong(t *testing.T) {
	for sent, want := range map[string]string{"5": "5", "86400": "30", "": "", "tomorrow": "tomorrow"} {
		f := followerOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", sent)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		response, err := f.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, f.url+objectPath, nil))
		expect.NoError(t, err)
		_ = response.Body.Close()
		if got := response.Header.Get("Retry-After"); got != want {
			t.Errorf("Retry-After %q became %q, want %q", sent, got, want)
		}
	}
}

func TestAFinderFindsATextHoweverItIsCut(t *testing.T) {
	const text = "abab!"
	for _, whole := range []string{"abab!", "xxababab!x", "ab abab!"} {
		for cut := range len(whole) {
			for next := cut; next < len(whole); next++ {
				f := &textFinder{text: text}
				found := 0
				for _, piece := range []string{whole[:cut], whole[cut:next], whole[next:]} {
					if f.foundIn([]byte(piece)) {
						found++
					}
				}
				if found != 1 {
					t.Errorf("%q cut at %d and %d: found %d times", whole, cut, next, found)
				}
			}
		}
	}
	if (&textFinder{text: text}).foundIn([]byte("abab?")) {
		t.Error("found what is not there")
	}
}

// TestSharesAddUp lets many clients come and go at once.
func TestSharesAddUp(t *testing.T) {
	b := &budget{clock: clock.RealClock{}}
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			collection := pathOf(i % 5)
			for range 500 {
				end := b.followCollection(collection)
				b.beginList(collection)
				b.addListed(collection, amount{objects: 3, bytes: 300})
				b.completeList(collection)
				b.addWatched(collection, amount{objects: 1, bytes: 100})
				b.needsList(collection)
				end()
				end() // bodies may be closed twice
			}
		})
	}
	clients.Wait()
	var sum toldTotals
	for collection, s := range b.shares {
		sum = sum.plus(s.heldTotals())
		if s.answers != 0 {
			t.Errorf("%d answers of %s are open, want none", s.answers, collection)
		}
	}
	if sum != b.held {
		t.Errorf("the sum of the shares is %+v, and %+v is counted", sum, b.held)
	}
}

// A client that keeps little of each object may list more bytes, and no more
// objects.
func TestAListOfWhichLittleIsKeptMayHaveMoreBytes(t *testing.T) {
	page := listOf(5, objectBytesMax-1<<10) // 40 MiB
	f := followerOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("many") != "" {
			page = listOf(eventsMax, 0)
		}
		_, _ = io.WriteString(w, page)
	})
	list := func(query string) (refused *LimitError) {
		t.Helper()
		request := httptest.NewRequestWithContext(ReducedContext(t.Context()), http.MethodGet, f.url+pathOf(0)+query, nil)
		response, err := f.RoundTrip(request)
		expect.NoError(t, err)
		defer response.Body.Close() //nolint:errcheck // nothing can be done about it
		if _, err = io.Copy(io.Discard, response.Body); err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		return refused
	}
	for _, query := range []string{"", "?continue=a", "?continue=b"} {
		if refused := list(query); refused != nil {
			t.Errorf("page %q is refused: %v", query, refused)
		}
	}
	if refused := list("?many=yes"); refused == nil {
		t.Errorf("more than %d objects are taken", eventsMax)
	}
}

// TestPagesThatAreRequestedAgainWithFewerObjectsGoOnCounting has a client do as it does when a page is too much, until
// it has one object in it.
func TestPagesThatAreRequestedAgainWithFewerObjectsGoOnCounting(t *testing.T) {
	page := listOf(eventsMax/10, 0)
	f := followerOf(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) })
	pages := 0
	for limit, next := 250, ""; limit > 0; next = "&continue=next" {
		request := httptest.NewRequestWithContext(ReducedContext(t.Context()), http.MethodGet, fmt.Sprintf("%s%s?limit=%d%s", f.url, pathOf(0), limit, next), nil)
		response, err := f.RoundTrip(request)
		expect.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if pages++; err != nil {
			pages--
			limit /= 2
		}
	}
	if pages > 10 {
		t.Errorf("%d pages of %d objects are taken of a list, which may have %d", pages, eventsMax/10, eventsMax)
	}
	if n := f.limits.budget.held.listed.objects; n != 0 {
		t.Errorf("%d objects count after the client gave up", n)
	}
}
