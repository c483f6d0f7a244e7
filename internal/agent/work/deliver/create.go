// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/kube/apply"
)

func (createOnly) makeOrOwn(ctx context.Context, o *object) (*metav1.PartialObjectMetadata, error) {
	want := o.want
	stamp := o.objectStamp()
	as := apply.FieldWriter{Manager: o.Record.FieldManager(), Force: true}
	missing := o.Session == nil // what an executor needs depends on whether the object is there
	if !missing {
		_, err := o.Member.Get(ctx, want.Resource.Version, want.Object)
		if missing = apierrors.IsNotFound(err); err != nil && !missing {
			return nil, err
		}
	}
	if missing {
		body, err := apply.RenderBody(o.rawManifest(), stamp)
		if err == nil {
			err = executorRights{o}.rehearseWrite(ctx, body, as)
		}
		if err != nil {
			return nil, err
		}
		if made, err := o.Member.Create(ctx, want.Resource.Version, want.Object, body, as.Manager); !apierrors.IsAlreadyExists(err) {
			return made, err
		}
	}
	seen, err := o.Member.Get(ctx, want.Resource.Version, want.Object)
	if err != nil {
		return nil, err
	}
	stamp.MetadataOnly = true
	stamp.UID = seen.UID
	body, err := apply.RenderBody(o.rawManifest(), stamp)
	if err == nil {
		err = executorRights{o}.rehearseWrite(ctx, body, as)
	}
	if err != nil {
		return nil, err
	}
	return o.Member.Apply(ctx, want.Resource.Version, want.Object, body, as)
}
