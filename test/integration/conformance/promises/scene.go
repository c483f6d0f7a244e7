// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

// Scene is a case in a column. Everything that it makes has the name of the
// case, so that cases can run beside each other.
type Scene struct {
	testing.TB
	*installation.Column
	// ID is the name of the case in objects, and of its namespace on the member.
	ID string
}

// Namespace makes the namespace of the case on the member.
func (s *Scene) Namespace() {
	s.Helper()
	s.Member.ApplyText(s, "{apiVersion: v1, kind: Namespace, metadata: {name: "+s.ID+"}}")
}

// fill puts the names of the case into a text: NS is its namespace on the
// member, and the name of whatever else it makes there that has none.
func (s *Scene) fill(text string) string { return strings.ReplaceAll(text, "NS", s.ID) }

// admin applies a YAML text on the member.
func (s *Scene) admin(text string) {
	s.Helper()
	s.Member.ApplyText(s, s.fill(text))
}

// work returns a ManifestWork with the YAML text as its spec.
func (s *Scene) work(name, spec string) *workv1.ManifestWork {
	s.Helper()
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: s.ClusterName(), Name: s.ID + "-" + name}}
	if err := yaml.UnmarshalStrict([]byte(s.fill(spec)), &work.Spec); err != nil {
		s.Fatalf("the spec of work %s: %v", name, err)
	}
	return work
}

// Deliver makes the work have the spec.
func (s *Scene) Deliver(name, spec string) {
	s.Helper()
	want := s.work(name, spec)
	installation.Eventually(s, "delivering work "+name, func() error {
		work := &workv1.ManifestWork{}
		err := s.Hub.Client.Get(s.Context(), client.ObjectKeyFromObject(want), work)
		if apierrors.IsNotFound(err) {
			return s.Hub.Client.Create(s.Context(), want.DeepCopy())
		}
		if err != nil {
			return err
		}
		work.Spec = want.Spec
		return s.Hub.Client.Update(s.Context(), work)
	})
}

// refused tells that the hub refuses the work, with a message that has the
// parts.
func (s *Scene) refused(name, spec string, parts ...string) {
	s.Helper()
	err := s.Hub.Client.Create(s.Context(), s.work(name, spec))
	if err == nil {
		s.Errorf("the hub takes work %s, which it has to refuse", name)
		return
	}
	s.Contains(err.Error(), parts...)
}

// Remove deletes a work and waits until it is gone.
func (s *Scene) Remove(name string) {
	s.Helper()
	s.startRemoving(name)
	s.gone(name)
}

func (s *Scene) startRemoving(name string) {
	s.Helper()
	if err := s.Hub.Client.Delete(s.Context(), s.work(name, "{}")); err != nil {
		s.Fatal(err)
	}
}

func (s *Scene) gone(name string) {
	s.Helper()
	installation.Eventually(s, "work "+name+" is gone", func() error {
		work := s.work(name, "{}")
		err := s.Hub.Client.Get(s.Context(), client.ObjectKeyFromObject(work), work)
		if err == nil {
			return fmt.Errorf("it is there: %s", installation.Encode(work.Status.Conditions))
		}
		return client.IgnoreNotFound(err)
	})
}

// says waits until the work has a condition, for its present generation, that
// begins with want, which is STATUS or STATUS REASON, and returns the work.
func (s *Scene) says(name, conditionType, want string) *workv1.ManifestWork {
	s.Helper()
	work := s.work(name, "{}")
	installation.Eventually(s, fmt.Sprintf("work %s has condition %s %s", name, conditionType, want), func() error {
		if err := s.Hub.Client.Get(s.Context(), client.ObjectKeyFromObject(work), work); err != nil {
			return err
		}
		c := meta.FindStatusCondition(work.Status.Conditions, conditionType)
		if c == nil || c.ObservedGeneration != work.Generation || !strings.HasPrefix(string(c.Status)+" "+c.Reason, want) {
			return fmt.Errorf("generation %d: %s", work.Generation, installation.Encode(work.Status))
		}
		return nil
	})
	return work
}

// Applied waits until all of the work is on the member.
func (s *Scene) Applied(name string) *workv1.ManifestWork {
	s.Helper()
	s.says(name, workv1.ManifestWorkConditionApplied, "True")
	return s.says(name, workv1.ManifestWorkConditionAvailable, "True")
}

// message waits until the condition of a manifest begins with want and has the
// parts in its message.
func (s *Scene) message(name string, ordinal int, conditionType, want string, parts ...string) {
	s.Helper()
	work := s.work(name, "{}")
	installation.Eventually(s, fmt.Sprintf("manifest %d of work %s has condition %s %s with %q", ordinal, name, conditionType, want, parts), func() error {
		if err := s.Hub.Client.Get(s.Context(), client.ObjectKeyFromObject(work), work); err != nil {
			return err
		}
		for i := range work.Status.ResourceStatus.Manifests {
			m := &work.Status.ResourceStatus.Manifests[i]
			c := meta.FindStatusCondition(m.Conditions, conditionType)
			if int(m.ResourceMeta.Ordinal) != ordinal || c == nil || !strings.HasPrefix(string(c.Status)+" "+c.Reason, want) {
				continue
			}
			if lacks := Lacking(c.Message, parts); lacks == "" {
				return nil
			}
		}
		return errors.New(installation.Encode(work.Status))
	})
}

// Lacking returns the first of the parts that is not in the text.
func Lacking(text string, parts []string) string {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// Contains fails the case unless a text has the parts.
func (s *Scene) Contains(text string, parts ...string) {
	s.Helper()
	if part := Lacking(text, parts); part != "" {
		s.Errorf("%q lacks %q", text, part)
	}
}

// Has waits until the ConfigMap on the member has the value under the key "key".
func (s *Scene) Has(name, value string) *corev1.ConfigMap {
	s.Helper()
	found := &corev1.ConfigMap{}
	installation.Eventually(s, fmt.Sprintf("ConfigMap %s has %q", name, value), func() error {
		err := s.Member.Client.Get(s.Context(), client.ObjectKey{Namespace: s.ID, Name: name}, found)
		if err == nil && found.Data["key"] != value {
			return fmt.Errorf("it has %q", found.Data["key"])
		}
		return err
	})
	return found
}

// still is how long a case looks that nothing happens. A slow machine makes it see
// less, and fails nothing.
const still = 3 * time.Second

// remains fails the case if the ConfigMap gets another value in a time in which an
// agent that knew of one would have applied it many times.
func (s *Scene) remains(name, value string) *corev1.ConfigMap {
	s.Helper()
	found := &corev1.ConfigMap{}
	for until := time.Now().Add(still); time.Now().Before(until); time.Sleep(installation.PodsAgain) {
		if err := s.Member.Client.Get(s.Context(), client.ObjectKey{Namespace: s.ID, Name: name}, found); err != nil || found.Data["key"] != value {
			s.Fatalf("ConfigMap %s has %q and not %q any more: %v", name, found.Data["key"], value, err)
		}
	}
	return found
}

// HasNot waits until the ConfigMap is not on the member.
func (s *Scene) HasNot(name string) {
	s.Helper()
	s.GoneFromMember(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: name}})
}

// GoneFromMember waits until an object is not on the member.
func (s *Scene) GoneFromMember(object client.Object) {
	s.Helper()
	installation.Eventually(s, object.GetName()+" is gone from the member", func() error {
		err := s.Member.Client.Get(s.Context(), client.ObjectKeyFromObject(object), object)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// edit changes a ConfigMap on the member as somebody there.
func (s *Scene) edit(name, patch string) {
	s.Helper()
	s.patchMember(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: name}}, patch)
}

func (s *Scene) patchMember(object client.Object, patch string) {
	s.Helper()
	if err := s.Member.Client.Patch(s.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("somebody")); err != nil {
		s.Fatal(err)
	}
}

// managed waits until the check of the ManagedCluster returns nil.
func (s *Scene) managed(what string, check func(*clusterv1.ManagedCluster) error) {
	s.Helper()
	installation.Eventually(s, what, func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := s.Hub.Client.Get(s.Context(), client.ObjectKey{Name: s.ClusterName()}, mc); err != nil {
			return err
		}
		if err := check(mc); err != nil {
			return fmt.Errorf("%w; there is %s", err, installation.Encode(mc.Status))
		}
		return nil
	})
}

// is waits until the ManagedCluster has a condition that begins with want.
func (s *Scene) is(conditionType, want string) {
	s.Helper()
	s.managed(conditionType+" is "+want, func(mc *clusterv1.ManagedCluster) error {
		c := meta.FindStatusCondition(mc.Status.Conditions, conditionType)
		if c == nil || !strings.HasPrefix(string(c.Status)+" "+c.Reason, want) {
			return errors.New("not yet")
		}
		return nil
	})
}
