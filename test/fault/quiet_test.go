// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fault

package fault

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// sentinelName is of a work, and of its object, by which the test knows that the agent
// has looked at what happened before.
const sentinelName = "sentinel"

// settles waits until everything is as declared, has the agent look at each work once
// more, and sees that it then writes nothing, while it does what comes later.
func (w *world) settles() {
	w.t.Helper()
	start := time.Now()
	w.eventually("everything is as declared", w.exact)
	took := time.Since(start)
	w.worksAreLookedAt()
	w.eventually("everything is as declared", w.exact)
	w.passesSentinel("before")
	before, err := w.versions(w.t.Context())
	w.must(err)
	w.passesSentinel("after")
	after, err := w.versions(w.t.Context())
	w.must(err)
	for name, version := range after {
		if before[name] != version {
			w.t.Errorf("%s is written although nothing is to be done", name)
		}
	}
	w.removeSentinel()
	w.t.Logf("%d works and records and objects as declared after %s", len(after), took.Round(100*time.Millisecond))
}

// worksAreLookedAt gives each work a new generation that asks for nothing else, and
// waits until the agent has said what became of it.
func (w *world) worksAreLookedAt() {
	w.t.Helper()
	works, err := w.works(w.t.Context())
	w.must(err)
	for i := range works {
		after := works[i].DeepCopy()
		if after.Spec.DeleteOption == nil {
			after.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyForeground} // the default
		} else {
			after.Spec.DeleteOption = nil
		}
		w.must(w.hub.Client.Patch(w.t.Context(), after, client.MergeFrom(&works[i])))
	}
	w.eventually("the agent has looked at all works", func(ctx context.Context) error {
		works, err := w.works(ctx)
		if err != nil {
			return err
		}
		for i := range works {
			if err := isDone(&works[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// passesSentinel changes the sentinel, and waits until the agent has carried that out:
// it has heard of all works that were written before, its own writes among them.
func (w *world) passesSentinel(value string) {
	w.t.Helper()
	w.must(w.put(w.t.Context(), w.work(sentinelName, w.object("ConfigMap", sentinelName, value))))
	w.eventually("everything is as declared, with the sentinel "+value, w.exact)
}

func (w *world) removeSentinel() {
	w.t.Helper()
	w.must(w.hub.Client.Delete(w.t.Context(), w.work(sentinelName)))
	w.eventually("the sentinel is gone", w.exact)
}

// versions are the resourceVersions of everything but the sentinel.
func (w *world) versions(ctx context.Context) (map[string]string, error) {
	versions := map[string]string{}
	works, err := w.works(ctx)
	if err != nil {
		return nil, err
	}
	for i := range works {
		versions["work "+works[i].Name] = works[i].ResourceVersion
	}
	records, err := w.records(ctx)
	if err != nil {
		return nil, err
	}
	for name, record := range records {
		versions["record "+name] = record.ResourceVersion
	}
	objects, err := w.objects(ctx)
	for k, object := range objects {
		versions[fmt.Sprint(k)] = object.GetResourceVersion()
	}
	for _, name := range []string{"work " + sentinelName, "record " + w.recordName(sentinelName), fmt.Sprint(key{"ConfigMap", w.ns, sentinelName})} {
		delete(versions, name)
	}
	return versions, err
}
