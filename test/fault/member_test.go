// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fault

package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/fault/harness"
)

func TestDefinitionIsReplacedUnderItsObjects(t *testing.T) {
	w := worlds.NewWorld(t)
	define := func() {
		w.Eventually("the definition is there", func(ctx context.Context) error {
			return w.Member.Define(ctx, []*apiextensionsv1.CustomResourceDefinition{harness.WidgetDefinition()})
		})
	}
	define()
	w.Kinds = append(w.Kinds, harness.Widgets)
	w.During(func() {
		w.Pause(time.Second)
		w.Must(w.Member.Client.Delete(t.Context(), harness.WidgetDefinition()))
		w.Eventually("the definition is gone", func(ctx context.Context) error {
			err := w.Member.Client.Get(ctx, client.ObjectKeyFromObject(harness.WidgetDefinition()), &apiextensionsv1.CustomResourceDefinition{})
			if err == nil {
				return errors.New("it is there")
			}
			return client.IgnoreNotFound(err)
		})
		w.Pause(2 * time.Second)
		define()
	})
	w.Settles()
	w.Clear()
	w.Must(w.Member.Client.Delete(t.Context(), harness.WidgetDefinition()))
}

func TestWebhookOfTheMemberRefuses(t *testing.T) {
	w := worlds.NewWorld(t)
	hook := w.Admit(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "not today", Code: http.StatusForbidden}}
	})
	validating, _ := hook.Configuration(w)
	w.During(func() {
		w.Must(w.Member.Client.Create(t.Context(), validating))
		w.Asks(hook, true)
		w.Must(w.Hub.Client.Create(t.Context(), w.Work("refused", w.Object("ConfigMap", "refused", "1"))))
		w.Says("refused", "not today")
		t.Logf("asked %d times", hook.Asked.Load())
		w.Must(w.Member.Client.Delete(t.Context(), validating))
	})
	w.Settles()
	w.Clear()
}

func TestWebhookOfTheMemberMutates(t *testing.T) {
	w := worlds.NewWorld(t)
	patchType := admissionv1.PatchTypeJSONPatch
	hook := w.Admit(func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		answer := &admissionv1.AdmissionResponse{Allowed: true, PatchType: &patchType}
		answer.Patch = []byte(`[{"op":"add","path":"/data/added","value":"by the webhook"}]`)
		if r.Name == "mangled" {
			answer.Patch = []byte(`[{"op":"add","path":"/data/value","value":"mangled"}]`)
		}
		return answer
	})
	_, mutating := hook.Configuration(w)
	w.Must(w.Member.Client.Create(t.Context(), mutating))
	w.Asks(hook, true)
	w.During(func() { w.Pause(2 * time.Second) })
	w.Settles() // what the webhook adds is not ours, and not fought

	// What it makes of our own field is seen by nobody but our next write, so there is none.
	w.Must(w.Hub.Client.Create(t.Context(), w.Work("mangled", w.Object("ConfigMap", "mangled", "1"))))
	w.Eventually("the work is applied", func(ctx context.Context) error {
		work := &workv1.ManifestWork{}
		if err := w.Hub.Client.Get(ctx, client.ObjectKeyFromObject(w.Work("mangled")), work); err != nil {
			return err
		}
		return harness.IsDone(work)
	})
	before := hook.Asked.Load()
	w.WorksAreLookedAt()
	w.WorksAreLookedAt()
	if asked := hook.Asked.Load() - before; asked > 3 {
		t.Errorf("%d writes against a webhook that cannot be overruled, at two looks", asked)
	}
	w.Must(w.Member.Client.Delete(t.Context(), mutating))
	w.Asks(hook, false)
	w.Must(w.Put(t.Context(), w.Work("mangled", w.Object("ConfigMap", "mangled", "2"))))
	w.Settles()
	w.Clear()
}

func TestQuotaIsExceeded(t *testing.T) {
	w := worlds.NewWorld(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "tight"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("5")}},
	}
	w.Must(w.Member.Client.Create(t.Context(), quota))
	w.Eventually("the quota counts", func(ctx context.Context) error {
		err := w.Member.Client.Get(ctx, client.ObjectKeyFromObject(quota), quota)
		if err == nil && len(quota.Status.Hard) == 0 {
			err = errors.New("it does not")
		}
		return err
	})
	w.During(func() {
		manifests := make([]workv1.Manifest, 0, 10)
		for i := range 10 {
			manifests = append(manifests, w.Object("ConfigMap", fmt.Sprintf("many-%d", i), "1"))
		}
		w.Must(w.Hub.Client.Create(t.Context(), w.Work("many", manifests...)))
		w.Says("many", "exceeded quota")
		w.Must(w.Member.Client.Delete(t.Context(), quota))
	})
	w.Settles()
	w.Clear()
}

// TestRecordsAreDeleted deletes AppliedManifestWorks while works change: no
// object that a work keeps is deleted.
func TestRecordsAreDeleted(t *testing.T) {
	w := worlds.NewWorld(t)
	w.Must(w.Hub.Client.Create(t.Context(), w.Work("stays", w.Object("ConfigMap", "stays", "1"), w.Object("Secret", "stays", "AAAA"))))
	w.Settles()
	before, err := w.Objects(t.Context())
	w.Must(err)
	w.During(func() {
		for range 4 {
			records, err := w.Records(t.Context())
			w.Must(err)
			for _, record := range records {
				if err := w.Member.Client.Delete(t.Context(), &record); err != nil && !apierrors.IsNotFound(err) {
					t.Fatal(err)
				}
			}
			w.Pause(time.Second)
		}
	})
	w.Settles()
	after, err := w.Objects(t.Context())
	w.Must(err)
	for k, object := range before {
		if now := after[k]; now.GetUID() != object.GetUID() {
			t.Errorf("%v was deleted and made again", k)
		}
	}
	w.Clear()
}
