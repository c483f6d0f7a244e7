// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package teardown

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/paging"
)

const (
	// GracePeriodDefault is how long after its deletion a ClusterManager with joined
	// clusters waits before it deletes their works. Tools wait for 90 s altogether.
	GracePeriodDefault = 30 * time.Second

	// namesMax is how many clusters a notice names.
	namesMax = 5
	// pageSize is how many objects are read at a time.
	pageSize = 500
)

// GracePeriod is how long the removal of a hub waits before it deletes works.
type GracePeriod struct {
	// End is when it is over, Length how long after the deletion that is.
	End    time.Time
	Length time.Duration
	// Problem says what is wrong with the annotation; "" if nothing is.
	Problem string
}

// GracePeriodOf returns that of a ClusterManager that is being deleted.
func GracePeriodOf(cm *operatorv1.ClusterManager) GracePeriod {
	period := GracePeriod{Length: GracePeriodDefault}
	if value, ok := cm.Annotations[operatorv1.AnnotationDeletionGracePeriod]; ok {
		length, err := time.ParseDuration(value)
		if err == nil && length >= 0 {
			period.Length = length
		} else {
			period.Problem = fmt.Sprintf("annotation %s is %q, which is not a duration such as 30s or 10m; the default of %s applies",
				operatorv1.AnnotationDeletionGracePeriod, value, GracePeriodDefault)
		}
	}
	period.End = cm.DeletionTimestamp.Add(period.Length)
	return period
}

// HubLoss is what the clusters of a hub lose with it.
type HubLoss struct {
	// Clusters is the number of clusters that have joined, and Names have the first
	// of them.
	Clusters int
	Names    []string
	// Works is the number of ManifestWorks.
	Works int64
}

// CountHubLoss counts on a hub. One whose definitions are gone has nothing to lose.
func CountHubLoss(ctx context.Context, hub client.Reader) (HubLoss, error) {
	loss := HubLoss{}
	pages := paging.NewPages(hub, pageSize, paging.ClustersMax)
	for clusters, err := range paging.EachPage(ctx, pages, func() *clusterv1.ManagedClusterList { return &clusterv1.ManagedClusterList{} }) {
		if err != nil {
			return loss, unlessUnknown(err, "ManagedClusters")
		}
		for i := range clusters.Items {
			mc := &clusters.Items[i]
			if !meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined) || !mc.DeletionTimestamp.IsZero() {
				continue
			}
			loss.Clusters++
			if len(loss.Names) < namesMax {
				loss.Names = append(loss.Names, mc.Name)
			}
		}
	}
	works := worksList()
	if err := hub.List(ctx, works, client.Limit(1)); err != nil {
		return loss, unlessUnknown(err, "ManifestWorks")
	}
	loss.Works = int64(len(works.Items))
	if more := works.RemainingItemCount; more != nil {
		loss.Works += *more
	}
	return loss, nil
}

// DescribeLoss tells the user what the clusters lose when the period ends.
func (l HubLoss) DescribeLoss(period GracePeriod) string {
	names := strings.Join(l.Names, ", ")
	if len(l.Names) < l.Clusters {
		names += ", …"
	}
	text := fmt.Sprintf("%d joined clusters (%s) lose their works at %s, %s after the deletion: %d ManifestWorks and what they delivered are deleted; "+
		"to leave what they delivered on the members, set annotation %s=true on the ClusterManager",
		l.Clusters, names, period.End.UTC().Format(time.RFC3339), period.Length, l.Works, operatorv1.AnnotationKeepWorks)
	if period.Problem != "" {
		text += "; " + period.Problem
	}
	return text
}

// unlessUnknown returns the error of listing a kind, unless the hub does not
// have the kind.
func unlessUnknown(err error, kind string) error {
	if err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return fmt.Errorf("listing %s: %w", kind, err)
}

func worksList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(workKind().GroupVersion().WithKind(workKind().Kind + "List"))
	return list
}
