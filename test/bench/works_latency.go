// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

const (
	// changes, drifts and statusChanges are how often each is done in a run.
	changes       = 100
	drifts        = 30
	statusChanges = 30
	// feedbackPatience is how long all status changes of a run may take.
	feedbackPatience = 30 * time.Second
	// smallWorks is how many small works are tried alone.
	smallWorks = 10
)

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// change changes one work after the other.
func (b *workBench) change(ctx context.Context) error {
	return b.works.withHundred(ctx, func(works []*workv1.ManifestWork) error {
		onHub, err := open[*workv1.ManifestWork](ctx, b.fleet.Hub.Client, &workv1.ManifestWorkList{}, client.InNamespace(clusterName(0)))
		if err != nil {
			return err
		}
		defer onHub.close()
		onMember, err := open[*corev1.ConfigMap](ctx, b.fleet.Members[0].Client, &corev1.ConfigMapList{}, client.InNamespace(worksNamespace))
		if err != nil {
			return err
		}
		defer onMember.close()
		var asked, there, back, plain []float64
		for i := range changes {
			work := works[i%len(works)]
			value := fmt.Sprintf("change %d", i)
			object := configMap(worksNamespace, work.Name+"-0", value, probePayloadBytes)
			patch, err := json.Marshal(map[string]any{"spec": map[string]any{"workload": map[string]any{"manifests": []any{object}}}})
			if err != nil {
				return err
			}
			generation := work.Generation
			atMember := onMember.later(ctx, func(_ watch.EventType, o *corev1.ConfigMap) bool {
				return o.Name == object.Name && o.Data[valueKey] == value
			})
			atHub := onHub.later(ctx, func(_ watch.EventType, w *workv1.ManifestWork) bool {
				return w.Name == work.Name && w.Generation > generation && reported(w)
			})
			started := time.Now()
			if err := b.fleet.Hub.Client.Patch(ctx, work, client.RawPatch("application/merge-patch+json", patch)); err != nil {
				return err
			}
			asked = append(asked, milliseconds(time.Since(started)))
			member, hub := <-atMember, <-atHub
			if member.err != nil || hub.err != nil {
				return fmt.Errorf("change %d: at the member: %w; on the hub: %w", i, member.err, hub.err)
			}
			there = append(there, milliseconds(member.at.Sub(started)))
			back = append(back, milliseconds(hub.at.Sub(started)))
			one, err := b.works.plainWrite(ctx)
			if err != nil {
				return err
			}
			plain = append(plain, milliseconds(one))
		}
		b.figure(changeRequestFigure).add(median(asked), median(plain))
		b.figure(changeFigure).add(median(there), median(plain))
		b.figure(changeWorstFigure).add(percentile(there, 99), percentile(plain, 99))
		b.figure(requestWorstFigure).add(percentile(asked, 99), percentile(plain, 99))
		b.figure(changeStatusFigure).add(median(back), median(plain))
		return nil
	})
}

// drift deletes and changes objects at the member.
func (b *workBench) drift(ctx context.Context) error {
	return b.works.withHundred(ctx, func(works []*workv1.ManifestWork) error {
		c := b.fleet.Members[0].Client
		objects, err := open[*corev1.ConfigMap](ctx, c, &corev1.ConfigMapList{}, client.InNamespace(worksNamespace))
		if err != nil {
			return err
		}
		defer objects.close()
		var deleted, altered, plain []float64
		for i := range drifts {
			object := configMap(worksNamespace, works[i%len(works)].Name+"-0", "0", 0)
			took, err := mended(ctx, objects, object.Name,
				func(event watch.EventType, _ *corev1.ConfigMap) bool { return event == watch.Deleted },
				func() error { return c.Delete(ctx, object.DeepCopy()) })
			if err != nil {
				return fmt.Errorf("an object was deleted: %w", err)
			}
			deleted = append(deleted, milliseconds(took))
			took, err = mended(ctx, objects, object.Name,
				func(_ watch.EventType, o *corev1.ConfigMap) bool { return o.Data[valueKey] != "0" },
				func() error {
					return c.Patch(ctx, object.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"value":"other"}}`)))
				})
			if err != nil {
				return fmt.Errorf("an object was changed: %w", err)
			}
			altered = append(altered, milliseconds(took))
			one, err := b.works.plainWrite(ctx)
			if err != nil {
				return err
			}
			plain = append(plain, milliseconds(one))
		}
		b.figure(deletedFigure).add(median(deleted), median(plain))
		b.figure(alteredFigure).add(median(altered), median(plain))
		return nil
	})
}

// mended breaks an object, and returns how long it took until it was seen as
// it should be after it was seen broken.
func mended(
	ctx context.Context, objects *stream[*corev1.ConfigMap], name string,
	broken func(watch.EventType, *corev1.ConfigMap) bool, breakIt func() error,
) (time.Duration, error) {
	wasBroken := false
	good := objects.later(ctx, func(event watch.EventType, o *corev1.ConfigMap) bool {
		if o.Name != name {
			return false
		}
		if broken(event, o) {
			wasBroken = true
			return false
		}
		return wasBroken
	})
	started := time.Now()
	if err := breakIt(); err != nil {
		return 0, err
	}
	seen := <-good
	return seen.at.Sub(started), seen.err
}

// feedback changes the status of an object at the member.
func (b *workBench) feedback(ctx context.Context) error {
	name := fmt.Sprintf("feedback-%d", b.works.next())
	ingress := &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress"},
		ObjectMeta: metav1.ObjectMeta{Namespace: worksNamespace, Name: name},
		Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}},
		}},
	}
	work := &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterName(0), Name: name, Labels: map[string]string{roundLabel: name}},
		Spec: workv1.ManifestWorkSpec{
			Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{manifest(ingress)}},
			ManifestConfigs: []workv1.ManifestConfigOption{{
				ResourceIdentifier: workv1.ResourceIdentifier{Group: networkingv1.GroupName, Resource: "ingresses", Namespace: worksNamespace, Name: name},
				FeedbackRules: []workv1.FeedbackRule{{
					Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{{Name: "ip", Path: ".status.loadBalancer.ingress[0].ip"}},
				}},
			}},
		},
	}
	if _, err := b.works.deliver(ctx, []*workv1.ManifestWork{work}); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, feedbackPatience)
	defer cancel()
	took, err := b.statusChanges(limited, ingress)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintf(os.Stderr, "feedback: only %d changes came to the hub in %s\n", len(took), feedbackPatience)
	case err != nil:
		return err
	default:
		b.figure(feedbackFigure).add(median(took), 0)
	}
	_, err = b.works.remove(ctx, []*workv1.ManifestWork{work})
	return err
}

// statusChanges returns how long each change of the status took to the hub.
func (b *workBench) statusChanges(ctx context.Context, object *networkingv1.Ingress) ([]float64, error) {
	onHub, err := open[*workv1.ManifestWork](ctx, b.fleet.Hub.Client, &workv1.ManifestWorkList{}, client.InNamespace(clusterName(0)))
	if err != nil {
		return nil, err
	}
	defer onHub.close()
	var took []float64
	for i := range statusChanges {
		ip := fmt.Sprintf("10.0.0.%d", i+1)
		told := onHub.later(ctx, func(_ watch.EventType, w *workv1.ManifestWork) bool {
			return w.Name == object.Name && slices.ContainsFunc(w.Status.ResourceStatus.Manifests, func(m workv1.ManifestCondition) bool {
				values := m.StatusFeedback.Values
				return len(values) == 1 && values[0].FieldValue.String != nil && *values[0].FieldValue.String == ip
			})
		})
		patch := fmt.Appendf(nil, `{"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, ip)
		started := time.Now()
		err := b.fleet.Members[0].Client.Status().Patch(ctx, object.DeepCopy(), client.RawPatch("application/merge-patch+json", patch))
		if err != nil {
			return nil, err
		}
		seen := <-told
		if seen.err != nil {
			return took, seen.err
		}
		took = append(took, milliseconds(seen.at.Sub(started)))
	}
	return took, nil
}

// fairness delivers small works alone, and then beside a big one.
func (b *workBench) fairness(ctx context.Context) error {
	var alone, beside []float64
	for range smallWorks {
		took, err := b.works.small(ctx)
		if err != nil {
			return err
		}
		alone = append(alone, took)
	}
	big := b.works.build(load{clusters: 1, works: 1, manifests: 1000})
	done := make(chan error, 1)
	go func() {
		_, err := b.works.deliver(ctx, big)
		done <- err
	}()
	for {
		took, err := b.works.small(ctx)
		if err != nil {
			return err
		}
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			if len(beside) == 0 {
				return fmt.Errorf("the big work was delivered before a small one")
			}
			b.figure(fairnessFigure).add(slices.Max(beside)/median(alone), 0)
			_, err = b.works.remove(ctx, big)
			return err
		default:
			beside = append(beside, took)
		}
	}
}
