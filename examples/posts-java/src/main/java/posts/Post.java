package posts;

import com.fasterxml.jackson.databind.annotation.JsonSerialize;
import com.fasterxml.jackson.databind.ser.std.ToStringSerializer;
import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.PrePersist;
import jakarta.persistence.Table;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import kazahana.Tsid;
import kazahana.hibernate.TsidGenerator;

@Entity
@Table(name = "posts")
public class Post {
    @Id
    @TsidGenerator
    @JsonSerialize(using = ToStringSerializer.class) // JavaScript loses digits of numbers past 2^53
    private Long id;

    @Column(name = "community_id")
    @JsonSerialize(using = ToStringSerializer.class)
    private Long communityId;

    @Column(name = "user_id")
    @JsonSerialize(using = ToStringSerializer.class)
    private Long userId;

    @Column(columnDefinition = "text")
    private String content;

    @Column(name = "created_at")
    private LocalDateTime createdAt;

    protected Post() {}

    public Post(Long communityId, Long userId, String content) {
        this.communityId = communityId;
        this.userId = userId;
        this.content = content;
    }

    /** The key is made before this is called. */
    @PrePersist
    void created() {
        createdAt = LocalDateTime.ofInstant(Tsid.from(id).getInstant(), ZoneOffset.UTC);
    }

    public Long getId() {
        return id;
    }

    public Long getCommunityId() {
        return communityId;
    }

    public Long getUserId() {
        return userId;
    }

    public String getContent() {
        return content;
    }

    public LocalDateTime getCreatedAt() {
        return createdAt;
    }
}
