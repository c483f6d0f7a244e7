// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// TestManifestsAreDecodedWhenThereIsRoom has others decode as much as there is room for. A context that has
// ended shows who would wait.
func TestManifestsAreDecodedWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	secret := func(data string) []byte {
		return []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"stringData":{` + data + `"z":""}}`)
	}
	values := ""
	for i := range 8000 {
		values += fmt.Sprintf(`"%x":"",`, i)
	}
	small := secret(`"a":"` + strings.Repeat("x", 200<<10) + `",`)
	memory := decoding.NewMemory(clock.RealClock{})
	var ends []func()
	for _, others := range []string{"one", "two"} {
		ctx, end := memory.BeginReservation(t.Context(), others)
		expect.NoError(t, decoding.TakeMemory(ctx, 192<<20))
		ends = append(ends, end)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	uses := map[string]func(context.Context, []byte) error{
		"NormalizedContent": func(ctx context.Context, raw []byte) error { _, err := NormalizedContent(ctx, raw); return err },
		"SelectableContent": func(ctx context.Context, raw []byte) error { _, err := SelectableContent(ctx, raw); return err },
		"RenderBody": func(ctx context.Context, raw []byte) error {
			_, err := RenderBody(ctx, raw, Stamp{Label: "l"})
			return err
		},
		"KeepContent": func(ctx context.Context, raw []byte) error { _, err := KeepContent(ctx, raw); return err },
	}
	for by, use := range uses {
		for what, raw := range map[string][]byte{"many values": secret(values), "a long text": secret(`"a":"` + strings.Repeat("x", 300<<10) + `",`)} {
			ctx, end := memory.BeginReservation(ended, "tenant")
			if err := use(ctx, raw); !errors.Is(err, context.Canceled) || errors.Is(err, ErrNotObject) {
				t.Errorf("%s of %s: got %v, want that it waits for room", by, what, err)
			}
			end()
		}
		ctx, end := memory.BeginReservation(ended, "tenant")
		if err := use(ctx, small); err != nil && by != "KeepContent" {
			t.Errorf("%s of a small one: %v", by, err)
		}
		end()
	}
	for _, end := range ends {
		end()
	}
	for by, use := range uses {
		for range 3 { // more than there is room for, if what is no longer there counted
			ctx, end := memory.BeginReservation(ended, "tenant")
			if err := use(ctx, secret(strings.Repeat(values, 12))); err != nil {
				t.Errorf("%s: %v", by, err)
			}
			end()
		}
	}
}

// TestASlowServerKeepsNoRoomOfManifests has a server look at what room there is for others until it answers.
func TestASlowServerKeepsNoRoomOfManifests(t *testing.T) {
	t.Parallel()
	dense := []byte(`{"apiVersion":"a/v1","kind":"A","metadata":{"name":"a"},"l":[` + strings.Repeat("{},", 250_000) + `{}]}`)
	memory := decoding.NewMemory(clock.RealClock{})
	left := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ended, cancel := context.WithCancel(r.Context())
		cancel()
		ctx, end := memory.BeginReservation(ended, "others")
		left <- decoding.TakeMemory(ctx, 288<<20)
		end()
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"a"},"l":[`+strings.Repeat("{},", 20_000)+`{}]}`)
	}))
	defer server.Close()
	answers := decoding.NewMemory(clock.RealClock{})
	member := memberAt(t, server.URL, 1, answers)
	for _, keep := range []bool{false, true} {
		ctx, end := memory.BeginReservation(t.Context(), "tenant")
		if keep {
			kept, err := KeepContent(ctx, dense)
			expect.NoError(t, err)
			if !kept {
				t.Error("it keeps nothing")
			}
		}
		body, err := RenderBody(ctx, dense, Stamp{Label: "l"})
		expect.NoError(t, err)
		_, err = member.Apply(ctx, "v1", ObjectRef{Group: "a", Resource: "as", Name: "a"}, body, FieldWriter{})
		expect.NoError(t, err)
		if err := <-left; (err != nil) != keep {
			t.Errorf("kept %t: while the server answers, others get %v", keep, err)
		}
		end()
	}
}

// TestWhoKeepsRoomGetsAnswers has all room for manifests kept by those who read as much from a server as is left of it: nobody waits for
// what another one of them has.
func TestWhoKeepsRoomGetsAnswers(t *testing.T) {
	t.Parallel()
	const owners = 6
	dense := `{"apiVersion":"a/v1","kind":"A","metadata":{"name":"a"},"l":[` + strings.Repeat("{},", 40_000) + `{}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, dense)
	}))
	defer server.Close()
	memory := decoding.NewMemory(clock.RealClock{})
	member := memberAt(t, server.URL, owners, decoding.NewMemory(clock.RealClock{}))
	var here, all sync.WaitGroup
	here.Add(owners)
	for owner := range owners {
		all.Go(func() {
			ctx, end := memory.BeginReservation(t.Context(), fmt.Sprint("owner ", owner))
			defer end()
			_, err := KeepContent(ctx, []byte(dense))
			here.Done()
			here.Wait()
			if err == nil {
				_, err = member.ReadObject(ctx, "v1", ObjectRef{Group: "a", Resource: "as", Name: "a"})
			}
			if err == nil {
				_, err = NormalizedContent(ctx, []byte(dense))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestWhatIsCreatedIsTheBody has a body that was made to apply it to an object which has gone.
func TestWhatIsCreatedIsTheBody(t *testing.T) {
	t.Parallel()
	sent := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent <- bytes.TrimSpace(body)
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = w.Write(body)
	}))
	defer server.Close()
	member := memberAt(t, server.URL, 1, nil)
	object := ObjectRef{Group: "apps", Resource: "deployments", Namespace: "n", Name: "a"}
	const body = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"l":"\u003c"},"name":"a","resourceVersion":"7"},"spec":{"big":9007199254740993,"replicas":3}}`
	made, err := member.Create(t.Context(), "v1", object, []byte(body), "m")
	expect.NoError(t, err)
	if want := strings.Replace(body, `,"resourceVersion":"7"`, "", 1); made.Name != "a" || string(<-sent) != want {
		t.Errorf("the server made %v of something else than %s", made, want)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"apiVersion":"v1","kind":1,"metadata":{}}`} {
		if _, err := member.Create(t.Context(), "v1", object, []byte(bad), "m"); !errors.Is(err, ErrNotObject) {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}

// TestThereIsRoomForAnObjectUntilItWasLookedAt has others take what is left while an object of 20 MB is looked at.
func TestThereIsRoomForAnObjectUntilItWasLookedAt(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"a/v1","kind":"A","metadata":{"name":"a"},"l":[`+strings.Repeat("{},", 40_000)+`{}]}`)
	}))
	defer server.Close()
	answers := decoding.NewMemory(clock.RealClock{})
	member := memberAt(t, server.URL, 1, answers)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	othersWait := func() bool {
		one, endOne := answers.BeginReservation(ended, "one")
		defer endOne()
		expect.NoError(t, decoding.TakeMemory(one, 192<<20))
		two, endTwo := answers.BeginReservation(ended, "two")
		defer endTwo()
		return decoding.TakeMemory(two, 192<<20) != nil
	}
	viewed := false
	err := member.ViewObject(t.Context(), "v1", ObjectRef{Group: "a", Resource: "as", Name: "a"}, func(object *unstructured.Unstructured) {
		viewed = true
		if object.GetName() != "a" || !othersWait() {
			t.Errorf("while %q is looked at, others have all the room", object.GetName())
		}
	})
	expect.NoError(t, err)
	if !viewed || othersWait() {
		t.Errorf("looked at: %t; others wait after that", viewed)
	}
}
