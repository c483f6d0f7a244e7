// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox

import (
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"
)

// newQueue returns a queue that nobody takes anything from.
func newQueue(t *testing.T) Queue[string] {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	t.Cleanup(q.ShutDown)
	return q
}

// drain takes all that is in a queue, sorted.
func drain(q Queue[string]) []string {
	var keys []string
	for q.Len() > 0 {
		key, _ := q.Get()
		q.Done(key)
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func TestNothingIsLostAroundTheStartOfAController(t *testing.T) {
	cases := map[string]struct {
		before, after []string
		want          []string
	}{
		"nothing":                 {nil, nil, nil},
		"only before":             {[]string{"a", "b"}, nil, []string{"a", "b"}},
		"only after":              {nil, []string{"a", "b"}, []string{"a", "b"}},
		"before and after":        {[]string{"a"}, []string{"b"}, []string{"a", "b"}},
		"twice before is once":    {[]string{"a", "a"}, nil, []string{"a"}},
		"the empty key is a key":  {[]string{""}, nil, []string{""}},
		"the same at either side": {[]string{"a"}, []string{"a"}, []string{"a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var in Inbox[string]
			for _, key := range tc.before {
				in.Add(key)
			}
			q := newQueue(t)
			if err := in.ForwardKeys(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			for _, key := range tc.after {
				in.Add(key)
			}
			if diff := cmp.Diff(tc.want, drain(q)); diff != "" {
				t.Errorf("what the controller looks at, -want +got:\n%s", diff)
			}
		})
	}
}

func TestWhatWasSentIsNotSentAgain(t *testing.T) {
	var in Inbox[string]
	in.Add("a")
	first, second := newQueue(t), newQueue(t)
	for _, q := range []Queue[string]{first, second} {
		if err := in.ForwardKeys(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	in.Add("b")
	if diff := cmp.Diff([][]string{{"a"}, {"b"}}, [][]string{drain(first), drain(second)}); diff != "" {
		t.Errorf("what each queue has, -want +got:\n%s", diff)
	}
}

func TestManyAddWhileAControllerStarts(t *testing.T) {
	const each, senders = 200, 4
	var in Inbox[string]
	var group sync.WaitGroup
	var want []string
	for sender := range senders {
		for i := range each {
			want = append(want, strconv.Itoa(sender)+"/"+strconv.Itoa(i))
		}
		group.Go(func() {
			for i := range each {
				in.Add(strconv.Itoa(sender) + "/" + strconv.Itoa(i))
			}
		})
	}
	q := newQueue(t)
	if err := in.ForwardKeys(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	slices.Sort(want)
	if diff := cmp.Diff(want, drain(q)); diff != "" {
		t.Errorf("what the controller looks at, -want +got:\n%s", diff)
	}
}
